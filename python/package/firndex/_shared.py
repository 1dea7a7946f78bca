"""Caches that parts of a process share: all that name a path have one handle, opened when it is used first."""

import os
import threading
import time

from ._cache import Cache
from ._errors import BadOption, Held, Missing

#: Capacity in bytes of a new cache, if none is given.
CAPACITY = 64 << 20

#: Seconds between two attempts to get one of several files.
_TRY_AGAIN = 0.02


class Shared:
    """A cache, and what it was opened with."""

    def __init__(self, cache, asked, capacity):
        self.cache = cache
        self.asked = asked
        # That of a guest's cache is the owner's, whatever was asked for here.
        self.capacity = capacity
        self.process = os.getpid()

    def is_usable(self):
        return self.process == os.getpid() and not self.cache.closed


_all = {}
_opening = threading.Lock()


def _forget():
    """The handles are the parent's, and a thread of it may have held the lock."""
    global _opening
    _all.clear()
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _open(path, capacity, options):
    if capacity is not None:
        return Cache(path, capacity, **options)
    try:
        return Cache(path, **options)
    except Missing:
        return Cache(path, CAPACITY, **options)


def _open_one_of(path, workers, capacity, options):
    """Opens the first of the workers' files that no other process has, and lets no other one in."""
    options = {**options, "guests": False}
    until = time.monotonic() + (options.pop("wait", None) or 0)
    while True:
        for number in range(workers):
            try:
                one = _open(f"{path}.{number}", capacity, options)
            except Held:
                continue
            if one.role == "owner":
                return one
            one.close()
        if time.monotonic() >= until:
            raise Held(f"all of {path}.0 to {path}.{workers - 1} are in use by other processes; let `workers` be at "
                       "least the number of processes, or end some")
        time.sleep(_TRY_AGAIN)


def _shared(path, capacity, workers, options):
    at = os.path.realpath(os.fsdecode(path))
    asked = {"workers": workers, **options}
    with _opening:
        found = _all.get(at)
        if found is None or not found.is_usable():
            one = _open(at, capacity, options) if workers is None else _open_one_of(at, workers, capacity, options)
            _all[at] = Shared(one, asked, capacity)
            return _all[at]
        if asked != found.asked:
            raise BadOption(f"the cache at {at} is open in this process with {found.asked}, and was asked for with "
                            f"{asked}; give the same options wherever it is named")
        if capacity is not None:
            has = found.capacity if found.capacity is not None else found.cache.stats()["capacity_bytes"]
            if capacity != has:
                raise BadOption(f"the cache at {at} is open in this process with a capacity of {has} bytes, and was "
                                f"asked for with {capacity}; give the same capacity wherever it is named, or none")
        return found


class Lazy:
    """The cache at a path. It is opened when it is used first, and anew after it was closed or the process forked.

    With `workers` it is the first of so many files that no other process has: `path` with a number behind it.
    """

    def __init__(self, path, capacity=None, *, workers=None, **options):
        if workers is not None and workers < 1:
            raise BadOption(f"workers is {workers}; expected the number of processes, from 1 on")
        if workers is not None and (options.get("guests") or options.get("never_own")):
            raise BadOption("with `workers` each process has a file to itself; leave `guests` and `never_own` out, or "
                            "`workers`, and all processes share one file")
        self._path = path
        self._capacity = capacity
        self._workers = workers
        self._options = options
        self._found = None

    def get(self):
        found = self._found
        if found is None or not found.is_usable():
            found = self._found = _shared(self._path, self._capacity, self._workers, self._options)
        return found
