"""Dicts that outlive the process: a concurrent, crash-safe hash index in a memory-mapped file.

>>> import firndex
>>> with firndex.Store("sessions.firn") as sessions:
...     sessions["user 17"] = b"signed in"
>>> firndex.Store("sessions.firn")["user 17"]
b'signed in'
"""

from ._cache import Cache
from ._errors import (
    BadOption,
    CacheHeld,
    Closed,
    Corrupt,
    Error,
    Exists,
    ForOwner,
    Forked,
    Held,
    Interrupted,
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
    Silent,
    SystemFailure,
    TooLarge,
    Vanished,
    error,
)
from ._firndex import inspect, remove
from ._store import Backup, Dbm, Report, Store, open

__all__ = [
    "BadOption",
    "Backup",
    "Cache",
    "CacheHeld",
    "CacheInfo",
    "Closed",
    "Corrupt",
    "Dbm",
    "Error",
    "Exists",
    "ForOwner",
    "Forked",
    "Held",
    "Interrupted",
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
    "Silent",
    "Store",
    "SystemFailure",
    "Table",
    "TooLarge",
    "Vanished",
    "cached",
    "error",
    "inspect",
    "open",
    "remove",
]


def __getattr__(name):
    """What takes longer to import is imported when it is asked for."""
    if name == "Table":
        from ._table import Table as found
    elif name == "cached":
        from ._cached import cached as found
    elif name == "CacheInfo":
        from ._cached import CacheInfo as found
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__():
    return sorted(set(globals()) | set(__all__))
