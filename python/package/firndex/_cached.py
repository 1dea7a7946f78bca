"""A decorator like `functools.cache` whose results survive the process."""

import functools
import hashlib
import os
import pickle
import threading
from collections import namedtuple

from ._cache import Cache
from ._shared import Lazy
from ._store import Store
from ._values import until_done

#: The result of `cache_info`: how many calls found a result, and how many computed one.
CacheInfo = namedtuple("CacheInfo", "hits misses")

#: A longer description of the arguments is replaced by a digest.
_ARGUMENTS_MAX = 200


def _told(value):
    """A text that equal arguments have in every process, and others have not."""
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes):
        return repr(value)
    if kind in (tuple, list):
        return f"{kind.__name__}({','.join(map(_told, value))})"
    if kind in (set, frozenset):
        return f"{kind.__name__}({','.join(sorted(map(_told, value)))})"
    if kind is dict:
        return f"dict({','.join(sorted(f'{_told(key)}:{_told(item)}' for key, item in value.items()))})"
    raise TypeError(f"an argument is {kind.__name__}, of which no text is the same in every process; pass "
                    "`key`, a function of the arguments that returns numbers, str, bytes, or tuples of these")


class _InStore:
    """Results in a store, which a path names, or which is open."""

    def __init__(self, store):
        self._path = store
        self._opened = store if isinstance(store, Store) else None
        self._opening = threading.Lock()
        if self._opened is None:
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self):
        self._opened, self._opening = None, threading.Lock()

    def pool(self):
        if self._opened is None:
            with self._opening:
                if self._opened is None:
                    self._opened = Store(self._path)
        return self._opened

    def get_or_compute(self, key, compute):
        results = self.pool()
        found = results.get(key)
        if found is None:
            found = results[key] = compute()
        return found


class _InCache:
    """Results in a cache, which a path names, or which is open."""

    def __init__(self, cache, capacity, expire):
        self._lazy = None if isinstance(cache, Cache) else Lazy(cache, capacity)
        self._opened = cache
        self._expire = expire

    def pool(self):
        return self._opened if self._lazy is None else self._lazy.get().cache

    def get_or_compute(self, key, compute):
        return self.pool().get_or_compute(key, compute, self._expire)


def cached(store, *, version=0, key=None, dumps=pickle.dumps, loads=pickle.loads, expire=None, capacity=None):
    """Keep a function's results in a store: it runs once for the same arguments, also in later processes.

    `store` is a `Store`, or the path of one, which is opened at the first call, and anew in a forked child. Functions
    may share one: the key has the function's module and qualified name. Change `version` when the function changes,
    and its earlier results do not count any more. Arguments are numbers, str, bytes, None, and tuples, lists, sets and
    dicts of these; for others pass `key`, a function of the arguments that returns such a value. 1, 1.0 and True are
    different arguments.

    With `expire`, a result is kept for so many seconds, or for a timedelta. With `capacity`, results take no more than
    so many bytes. With either, `store` is a `Cache` or the path of one, in a new file with 64 MiB if no capacity is
    given. Processes share it as they share a store. One thread at a time in each process computes a result that
    others need, too.

    Results are pickled; `dumps` and `loads` name another codec. Only open pools that you trust, as loading a pickle
    runs what it says. A call that raises stores nothing. Without a cache, threads that need the same result at once may
    each compute it.

    The function gets the attributes `cache_info()`, `cache_clear()`, `cache_key(*args)` and `__wrapped__`.

    >>> import firndex
    >>> @firndex.cached("results.firn", version=1)
    ... def square(n):
    ...     print("computing")
    ...     return n * n
    >>> square(12), square(12)
    computing
    (144, 144)
    >>> square.cache_info()
    CacheInfo(hits=1, misses=1)
    """
    if isinstance(store, Cache) and capacity is not None:
        raise TypeError("a capacity was given with a Cache, which has one; leave it out, or pass the path of a new one")
    if isinstance(store, Store) and not (expire is None and capacity is None):
        raise TypeError("expire or capacity was given with a Store, whose values have no end and no bound; "
                        "pass a Cache or a path")
    is_cache = isinstance(store, Cache) or expire is not None or capacity is not None

    def decorate(function):
        name = f"{function.__module__}.{function.__qualname__}"
        prefix = f"{name}\0{_told(version)}\0".encode()
        results = _InCache(store, capacity, expire) if is_cache else _InStore(store)
        hits = misses = 0

        def cache_key(*args, **kwargs):
            told = _told(key(*args, **kwargs) if key is not None else (args, kwargs)).encode("utf-8", "surrogatepass")
            if len(told) > _ARGUMENTS_MAX:
                told = b"\0" + hashlib.blake2b(told, digest_size=32).digest()
            return prefix + told

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            nonlocal hits, misses
            computed = []

            def compute():
                nonlocal misses
                misses += 1
                computed.append(function(*args, **kwargs))
                return dumps(computed[0])

            found = results.get_or_compute(cache_key(*args, **kwargs), compute)
            if computed:
                return computed[0]
            hits += 1
            return loads(found)

        def cache_clear():
            """Remove the results of this function, of every version."""
            pool, mine = results.pool(), f"{name}\0".encode()
            until_done(lambda: pool.delete_many([at for at in pool if at.startswith(mine)]))

        wrapper.cache_key = cache_key
        wrapper.cache_clear = cache_clear
        wrapper.cache_info = lambda: CacheInfo(hits, misses)
        return wrapper

    return decorate
