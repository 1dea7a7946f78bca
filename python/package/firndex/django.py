"""A cache backend for Django: `"BACKEND": "firndex.django.FirndexCache"`."""

import pickle

from asgiref.sync import sync_to_async
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.exceptions import ImproperlyConfigured

from ._values import MISSING, Values

#: Options of Django's other backends, of which this one has no use: the capacity takes their place.
_UNUSED = ("MAX_ENTRIES", "CULL_FREQUENCY")


def _dumps(value):
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


class FirndexCache(BaseCache):
    """Keeps what Django caches in a file within a bound. It is there after a restart, `kill -9` included.

    `LOCATION` is the path. `OPTIONS` are the arguments of `firndex.Cache`: `capacity` in bytes (64 MiB for a new file),
    `durability`, `wait` and the others. The file is opened at the first use. All threads of the process, and all
    aliases with the same path, share it.

    Processes share the cache, forked ones too: each opens the file by itself. The first is its owner, and the others
    ask that one; when it ends, another one goes on. With the option `workers`, each process has one of so many files
    to itself instead, `LOCATION.0` and so on: the first that nobody has. Nobody is asked then, and what one of them
    stores or deletes, others do not see.

    `add`, `incr`, `decr` and `touch` are atomic, among processes too. If the owner is killed amid an `add`, that may
    return False although it added; amid an `incr`, the step may count twice if others change the value as well. One
    thread at a time computes for `get_or_set` in each process. A value that takes more than a quarter of the capacity
    is not kept, nor is what it was to replace; `add` then returns False, and `set_many` names its key. Values are
    pickled: only open files that you trust.
    """

    def __init__(self, location, params):
        super().__init__(params)
        if not location:
            raise ImproperlyConfigured("a FirndexCache has no LOCATION; give it the path of its file")
        options = {name: value for name, value in params.get("OPTIONS", {}).items() if name not in _UNUSED}
        self._values = Values(location, dumps=_dumps, **options)

    @property
    def cache(self):
        """The `firndex.Cache`, for its figures and its care. Keys have their prefixes and versions, values are pickled.
        """
        return self._values.cache

    def _expire(self, timeout):
        return self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout

    def get(self, key, default=None, version=None):
        return self._values.get(self.make_and_validate_key(key, version), default)

    def get_many(self, keys, version=None):
        named = {self.make_and_validate_key(key, version): key for key in keys}
        found = self._values.get_many(named)
        return {key: value for key, value in zip(named.values(), found) if value is not MISSING}

    def has_key(self, key, version=None):
        return self.make_and_validate_key(key, version) in self.cache

    def set(self, key, value, timeout=DEFAULT_TIMEOUT, version=None):
        self._values.set(self.make_and_validate_key(key, version), value, self._expire(timeout))

    def set_many(self, data, timeout=DEFAULT_TIMEOUT, version=None):
        expire = self._expire(timeout)
        named = {key: self.make_and_validate_key(key, version) for key in data}
        return [key for key, value in data.items() if not self._values.set(named[key], value, expire)]

    def add(self, key, value, timeout=DEFAULT_TIMEOUT, version=None):
        return self._values.add(self.make_and_validate_key(key, version), value, self._expire(timeout))

    def touch(self, key, timeout=DEFAULT_TIMEOUT, version=None):
        return self._values.touch(self.make_and_validate_key(key, version), self._expire(timeout))

    def delete(self, key, version=None):
        return self._values.delete(self.make_and_validate_key(key, version))

    def delete_many(self, keys, version=None):
        for key in [self.make_and_validate_key(key, version) for key in keys]:
            self._values.delete(key)

    def incr(self, key, delta=1, version=None):
        try:
            return self._values.change(self.make_and_validate_key(key, version), lambda value: value + delta)
        except KeyError:
            raise ValueError(f"the key {key!r} has no value to add to; set it first") from None

    async def aincr(self, key, delta=1, version=None):
        return await sync_to_async(self.incr, thread_sensitive=True)(key, delta, version)

    def get_or_set(self, key, default, timeout=DEFAULT_TIMEOUT, version=None):
        at, expire = self.make_and_validate_key(key, version), self._expire(timeout)
        return self._values.get_or_add(at, default if callable(default) else lambda: default, expire)

    def clear(self):
        self._values.clear()
