"""A decorator like `functools.cache` whose results survive the process."""

import functools
import hashlib
import os
import pickle
import threading
from collections import namedtuple

from ._store import Store

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


def cached(store, *, version=0, key=None, dumps=pickle.dumps, loads=pickle.loads):
    """Keep a function's results in a store: it runs once for the same arguments, also in later processes.

    `store` is a `Store`, or the path of one, which is opened at the first call, and anew in a forked child. Functions
    may share one: the key has the function's module and qualified name. Change `version` when the function changes,
    and its earlier results do not count any more. Arguments are numbers, str, bytes, None, and tuples, lists, sets and
    dicts of these; for others pass `key`, a function of the arguments that returns such a value. 1, 1.0 and True are
    different arguments.

    Results are pickled; `dumps` and `loads` name another codec. Only open pools that you trust, as loading a pickle
    runs what it says. A call that raises stores nothing. Threads that need the same result at once may each compute it.

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

    def decorate(function):
        name = f"{function.__module__}.{function.__qualname__}"
        prefix = f"{name}\0{_told(version)}\0".encode()
        opened = store if isinstance(store, Store) else None
        opening = threading.Lock()
        hits = misses = 0

        if opened is None:

            def forget():
                nonlocal opened, opening
                opened, opening = None, threading.Lock()

            os.register_at_fork(after_in_child=forget)

        def in_store():
            nonlocal opened
            if opened is None:
                with opening:
                    if opened is None:
                        opened = Store(store)
            return opened

        def cache_key(*args, **kwargs):
            told = _told(key(*args, **kwargs) if key is not None else (args, kwargs)).encode("utf-8", "surrogatepass")
            if len(told) > _ARGUMENTS_MAX:
                told = b"\0" + hashlib.blake2b(told, digest_size=32).digest()
            return prefix + told

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            nonlocal hits, misses
            at, results = cache_key(*args, **kwargs), in_store()
            found = results.get(at)
            if found is not None:
                hits += 1
                return loads(found)
            misses += 1
            result = function(*args, **kwargs)
            results[at] = dumps(result)
            return result

        def cache_clear():
            """Remove the results of this function, of every version."""
            results, mine = in_store(), f"{name}\0".encode()
            results.delete_many([at for at in results if at.startswith(mine)])

        wrapper.cache_key = cache_key
        wrapper.cache_clear = cache_clear
        wrapper.cache_info = lambda: CacheInfo(hits, misses)
        return wrapper

    return decorate
