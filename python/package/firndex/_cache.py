"""Caches: byte strings within a bound."""

from . import _firndex
from ._store import _MISSING, Handle, _open


class Cache(Handle, _firndex.Cache):
    """A cache of bytes that never takes more than its capacity, and outlives the process.

    `Cache(path, capacity)` opens the cache at `path`, or creates it; its file has at most `capacity` bytes, and two in
    a hundred more. Another capacity than it had is its capacity from now on. Without one, the cache must exist, and
    keeps its own. `Cache(capacity=...)` is one in memory, which ends with the process.

    A key is `bytes`, any object with a buffer, or `str`, which stands for its UTF-8 bytes. So is a value. What comes
    out is always `bytes`. An entry may take a quarter of the capacity, which is 256 KiB at least.

    What is returned was put for that key, and was neither removed, replaced nor over when the call began. What is worth
    least makes room for what is put, so an entry may be gone at any time. `len` counts those that are over until their
    space comes back, within a second. Once a call returns, its effect survives `kill -9`; `durability` says what
    survives power loss, as for a `Store`.

    Any number of threads may use a cache at once, and so may processes, as they use a `Store`: the first is the owner,
    the others are guests (`role`), also a forked child that opens it by its path. A guest asks the owner for
    everything, so a call takes longer; `get_many`, `set_many` without `expire` and `delete_many` ask for many keys at
    once. Capacity and clock are the owner's, also after a guest has become the owner since that one ended. A guest's
    change that the owner's end cut off raises `Interrupted`. `guests`, `never_own`, `patience` and `wait` are as of a
    `Store`.

    `flag` is "c" (open or create), "r" and "w" (open for reading, for writing; both without a capacity), "n" (begin
    anew) or "x" (create where nothing is). `reset_if_refused` begins anew instead of refusing a damaged file. The other
    arguments are `checkpoint_at`, `durable_every`, `hash_seed`, `keep_sums`, `log_directory` and `survive_bus_errors`,
    as of a `Store`.

    >>> from firndex import Cache
    >>> with Cache("pages.firn", 64 << 20) as pages:
    ...     pages["/about"] = b"We are"
    ...     pages.set("/news", b"Today", expire=60)
    >>> with Cache("pages.firn") as pages:
    ...     pages["/about"], pages.get("/team")
    (b'We are', None)
    """

    __slots__ = ("__weakref__",)

    def __init__(self, path=None, capacity=None, flag="c", **options):
        _open.add(self)

    def pop(self, key, default=_MISSING):
        """Remove `key` and return its value. Without the key, `default` or KeyError.

        No two calls get the same entry. What another thread stores for the key amid the call may go unseen.

        >>> cache = Cache(capacity=1 << 20)
        >>> cache["a"] = b"1"
        >>> cache.pop("a"), cache.pop("a", None)
        (b'1', None)
        """
        value = self._take(key)
        if value is not None:
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default
