"""Stores as mappings."""

import atexit
import weakref
from collections import namedtuple
from collections.abc import ItemsView, KeysView, MutableMapping, ValuesView

from . import _firndex

_MISSING = object()

#: The result of `backup`: how many pairs it has, how many bytes its file has, and whether it shows one moment.
Backup = namedtuple("Backup", "pairs bytes is_of_one_moment")


class Report(namedtuple("Report", "pairs faults findings")):
    """The result of `check`: how many pairs were verified, how many faults there are, and the first in words."""

    __slots__ = ()

    @property
    def is_sound(self):
        """Whether no fault was found."""
        return self.faults == 0


class _Keys(KeysView):
    __slots__ = ()

    def __repr__(self):
        return f"<keys of {self._mapping!r}>"


class _Values(ValuesView):
    __slots__ = ()

    def __iter__(self):
        return self._mapping._values()

    def __contains__(self, value):
        return any(value == other for other in self)

    def __repr__(self):
        return f"<values of {self._mapping!r}>"


class _Items(ItemsView):
    __slots__ = ()

    def __iter__(self):
        return self._mapping._items()

    def __contains__(self, item):
        key, value = item
        return self._mapping.get(key, _MISSING) == value

    def __repr__(self):
        return f"<items of {self._mapping!r}>"


class Handle:
    """What all pools have in common: they can be checked and closed, and are closed at the end of the process."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()

    def check(self):
        """Verify every pair and every invariant. Exact while nothing writes.

        >>> import firndex
        >>> firndex.Store().check().is_sound
        True
        """
        return Report(*self._check())


class Lasting(Handle):
    """What stores and tables have in common beside: nothing goes by itself, so a copy is worth having."""

    __slots__ = ()

    def backup(self, out, *, replace=False):
        """Write a copy of the pool at `out`, while others go on using this one.

        With a log it shows one moment during the call; without one it is consistent for each key. `replace` allows to
        put it in the place of another pool.

        >>> import firndex
        >>> with firndex.Store("notes.firn") as notes:
        ...     notes["milk"] = b"two bottles"
        ...     notes.backup("monday.firn").pairs
        1
        """
        return Backup(*self._backup(out, replace))


_open = weakref.WeakSet()


@atexit.register
def _close_all():
    """Closed pools need no recovery when they are opened next."""
    for handle in list(_open):
        try:
            handle.close()
        except Exception:
            # Nobody is left to tell; the pool is as if the process had been killed.
            pass


class Store(Lasting, _firndex.Store, MutableMapping):
    """A dict of bytes to bytes that outlives the process.

    `Store(path)` opens the pool at `path`, or creates it. `Store()` is one in memory, which ends with the process.

    A key is `bytes`, any object with a buffer, or `str`, which stands for its UTF-8 bytes. So is a value. What comes
    out is always `bytes`. Keys have up to 64 KiB, values up to 256 MiB.

    Once a call returns, its effect survives `kill -9`. On a disk, `durability` says what survives power loss:
    "periodic" (the default) all but the last 5 ms, "commit" everything, "process" what was closed or synced. In
    /dev/shm the default is "process".

    Any number of threads may use a store at once, and so may processes: each opens it by its path, a forked child, too.
    The first is the owner, the others are guests, whose changes the owner makes; when it ends, a guest becomes the
    owner (`role`). With `guests=False` the owner lets nobody in. A guest with `never_own=True` leaves that to others.
    `patience` is how many seconds a guest waits for an owner that does not answer (10).

    `flag` is one of `dbm`: "c" opens or creates, "r" opens for reading, "w" for writing, "n" begins anew, and "x"
    creates where nothing is. `wait` is how many seconds to wait while a process that lets nobody in has the pool open
    (10; 0 with `guests=False`, "n" and "x").
    `max_bytes` limits its size, `capacity` makes a new pool large enough for so many pairs. `compact_at` gives free
    space back, `log_directory` says where log and checkpoint go, `reset_if_refused` is for caches: it begins anew
    instead of refusing a damaged pool. The other arguments are those of the Rust type `firndex::Options`.

    >>> from firndex import Store
    >>> with Store("fruit.firn") as fruit:
    ...     fruit["apple"] = b"red"
    ...     fruit.setdefault("pear", b"green")
    b'green'
    >>> with Store("fruit.firn", "r") as fruit:
    ...     sorted(fruit.items())
    [(b'apple', b'red'), (b'pear', b'green')]
    """

    __slots__ = ("__weakref__",)

    def __init__(self, path=None, flag="c", **options):
        _open.add(self)

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        if self is other:
            return True
        return MutableMapping.__eq__(self, other)

    def keys(self):
        """The keys, as those of a dict. Iterating is in no order, and other threads may write meanwhile."""
        return _Keys(self)

    def values(self):
        """The values, in the order of `keys` while nothing changes."""
        return _Values(self)

    def items(self):
        """The pairs, in the order of `keys` while nothing changes."""
        return _Items(self)

    def pop(self, key, default=_MISSING):
        """Remove `key` and return its value, in one atomic step. Without the key, `default` or KeyError.

        >>> store = Store()
        >>> store["a"] = b"1"
        >>> store.pop("a"), store.pop("a", None)
        (b'1', None)
        """
        value = self._take(key)
        if value is not None:
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def update(self, other=(), /, **more):
        """Store the pairs of a mapping, or of an iterable, in batches. It is not atomic as a whole.

        >>> store = Store()
        >>> store.update({"a": b"1"}, b=b"2")
        >>> store |= [("c", b"3")]
        >>> len(store)
        3
        """
        self.put_many(other)
        if more:
            self.put_many(more)

    def __ior__(self, other):
        self.put_many(other)
        return self


class Dbm(Store):
    """A store as the modules under `dbm` give one: `keys` returns a list."""

    __slots__ = ()

    def keys(self):
        """A list of the keys."""
        return list(self)


def open(path, flag="r", mode=0o666, **options):
    """Open a store as `dbm.open` does; `shelve.Shelf` takes the result.

    `flag` is "r" (the default), "w", "c" or "n". A new pool has the mode that the process gives new files; another
    `mode` is set when it is created. `keys` of the result returns a list. The other arguments are those of `Store`.

    >>> import firndex, shelve
    >>> with shelve.Shelf(firndex.open("prices.firn", "c")) as prices:
    ...     prices["tea"] = {"cents": 499}
    >>> with shelve.Shelf(firndex.open("prices.firn")) as prices:
    ...     prices["tea"]
    {'cents': 499}
    """
    if mode != 0o666:
        raise NotImplementedError("mode is not 0o666; set the process's umask before the pool is created, and it holds "
                                  "for the pool, its log and its checkpoints")
    return Dbm(path, flag, **options)
