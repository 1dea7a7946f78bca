"""Dicts that outlive the process: a concurrent, crash-safe hash index in a memory-mapped file.

>>> import firndex
>>> with firndex.Store("sessions.firn") as sessions:
...     sessions["user 17"] = b"signed in"
>>> firndex.Store("sessions.firn")["user 17"]
b'signed in'
"""

from ._errors import (
    BadOption,
    Closed,
    Corrupt,
    Error,
    Exists,
    Forked,
    Held,
    Limit,
    LogFailed,
    Mismatch,
    Missing,
    NeedsRecovery,
    NotAPool,
    NotLogged,
    NotOpened,
    NotPicklable,
    NotRestored,
    PoolFull,
    ReadOnly,
    SystemFailure,
    Vanished,
    error,
)
from ._cached import CacheInfo, cached
from ._firndex import inspect, remove
from ._store import Backup, Dbm, Report, Store, open
from ._table import Table

__all__ = [
    "BadOption",
    "Backup",
    "CacheInfo",
    "Closed",
    "Corrupt",
    "Dbm",
    "Error",
    "Exists",
    "Forked",
    "Held",
    "Limit",
    "LogFailed",
    "Mismatch",
    "Missing",
    "NeedsRecovery",
    "NotAPool",
    "NotLogged",
    "NotOpened",
    "NotPicklable",
    "NotRestored",
    "PoolFull",
    "ReadOnly",
    "Report",
    "Store",
    "SystemFailure",
    "Table",
    "Vanished",
    "cached",
    "error",
    "inspect",
    "open",
    "remove",
]
