"""A backend for Flask-Caching: `CACHE_TYPE = "firndex.flask_caching.FirndexCache"`."""

import pickle

from flask_caching.backends.base import BaseCache

from ._values import MISSING, Values, until_done


class FirndexCache(BaseCache):
    """Keeps what Flask-Caching caches in a file within a bound. It is there after a restart, `kill -9` included.

    `CACHE_OPTIONS` has the `path`, and other arguments of `firndex.Cache`: `capacity` in bytes (64 MiB for a new file)
    in the place of a threshold, `durability`, `wait` and the others. The file is opened at the first use, and shared by
    all threads and applications of the process that name it.

    Processes share the cache, forked ones too: each opens the file by itself. The first is its owner, and the others
    ask that one; when it ends, another one goes on. With the option `workers`, each process has one of so many files
    to itself instead, the path with `.0` and so on: the first that nobody has. Nobody is asked then, and what one of
    them stores or deletes, others do not see.

    As in cachelib, a timeout of 0 is without an end, and None is the default timeout. What is negative ends at once.
    `add`, `inc` and `dec` are atomic, among processes too; the latter two leave the end as it is. If the owner is
    killed amid one, `add` may return False although it added, and a step may count twice if others count as well.
    `clear` removes what has the `CACHE_KEY_PREFIX`. A value that takes more than a quarter of the capacity is not kept,
    nor is what it was to replace: `set` and `add` then return False. Values are pickled, unless there is a
    `CACHE_SERIALIZER`: only open files that you trust.
    """

    def __init__(self, path, capacity=None, default_timeout=300, key_prefix="", ignore_delete_many_errors=False,
                 **options):
        super().__init__(default_timeout)
        self.ignore_delete_many_errors = ignore_delete_many_errors
        self.key_prefix = key_prefix
        # Flask-Caching sets another one after this.
        self.serializer = pickle
        self._values = Values(path, capacity=capacity, dumps=self._dumps, loads=self._loads, **options)

    @classmethod
    def factory(cls, app, config, args, kwargs):
        """Called by Flask-Caching."""
        return cls(*args, **{"key_prefix": config.get("CACHE_KEY_PREFIX") or "", **kwargs})

    @property
    def cache(self):
        """The `firndex.Cache`, for its figures and its care. Keys have their prefix, values are pickled."""
        return self._values.cache

    def _dumps(self, value):
        return self.serializer.dumps(value)

    def _loads(self, value):
        return self.serializer.loads(value)

    def _expire(self, timeout):
        return self._normalize_timeout(timeout) or None

    def get(self, key):
        """The value of a key, or None."""
        return self._values.get(self.key_prefix + key)

    def get_many(self, *keys):
        """A list of the keys' values, with None where there is none."""
        found = self._values.get_many([self.key_prefix + key for key in keys])
        return [None if value is MISSING else value for value in found]

    def has(self, key):
        """Whether there is a value."""
        return self.key_prefix + key in self.cache

    def set(self, key, value, timeout=None):
        """Store a value. Returns whether it was kept."""
        return self._values.set(self.key_prefix + key, value, self._expire(timeout))

    def add(self, key, value, timeout=None):
        """Store a value if there is none. Returns whether it was."""
        return self._values.add(self.key_prefix + key, value, self._expire(timeout))

    def delete(self, key):
        """Remove a key. Returns whether it was there."""
        return self._values.delete(self.key_prefix + key)

    def clear(self):
        """Remove all keys with the prefix."""
        prefix, cache = self.key_prefix.encode(), self.cache
        if prefix:
            until_done(lambda: cache.delete_many([key for key in cache if key.startswith(prefix)]))
        else:
            self._values.clear()
        return True

    def inc(self, key, delta=1):
        """Add to the value of a key, and return the sum. Without a value, `delta` is stored."""
        while True:
            try:
                return self._values.change(self.key_prefix + key, lambda value: value + delta)
            except KeyError:
                if self.add(key, delta):
                    return delta

    def dec(self, key, delta=1):
        """Subtract from the value of a key, and return the difference. Without a value, `-delta` is stored."""
        return self.inc(key, -delta)
