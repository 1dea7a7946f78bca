"""Values of any type in a shared cache, as frameworks for the web keep them."""

import pickle

from ._errors import Interrupted, TooLarge
from ._shared import Lazy

#: Stands for a value that is not there.
MISSING = object()


class _Added(Exception):
    """Has the cache keep nothing by itself, since that would replace what others have stored meanwhile."""


class Values:
    """Values in the cache at a path. They are pickled, unless `dumps` and `loads` name another codec.

    Changes of one key take turns in this process, so those of several steps are atomic in it, and not among processes.
    """

    def __init__(self, path, *, dumps=pickle.dumps, loads=pickle.loads, **options):
        self._lazy = Lazy(path, **options)
        self._dumps = dumps
        self._loads = loads

    @property
    def cache(self):
        return self._lazy.get().cache

    def get(self, key, default=None):
        found = self.cache.get(key)
        return default if found is None else self._loads(found)

    def get_many(self, keys):
        """The values of the keys, with `MISSING` where there is none."""
        return [MISSING if found is None else self._loads(found) for found in self.cache.get_many(keys)]

    def set(self, key, value, expire):
        """Stores a value, and returns whether there is room for one of its size. If not, the key has none."""
        shared, pickled = self._lazy.get(), self._dumps(value)
        with shared.lock(key):
            return _put(shared.cache, key, pickled, expire)

    def add(self, key, value, expire):
        """Stores a value if there is none, and returns whether it did."""
        shared = self._lazy.get()
        if key in shared.cache:
            return False
        pickled = self._dumps(value)
        with shared.lock(key):
            return key not in shared.cache and _put(shared.cache, key, pickled, expire)

    def change(self, key, function):
        """Stores what `function` makes of the value, and returns it. The end stays. KeyError if there is no value."""
        shared = self._lazy.get()
        with shared.lock(key):
            left = shared.cache.time_left(key)
            value = function(self._loads(shared.cache[key]))
            _put(shared.cache, key, self._dumps(value), left)
            return value

    def get_or_add(self, key, compute, expire):
        """The value of a key. If there is none, it is computed, by one thread at a time, and added."""

        def add():
            value = compute()
            self.add(key, value, expire)
            raise _Added(value)

        try:
            return self._loads(self.cache.get_or_compute(key, add))
        except _Added as added:
            return self.get(key, added.args[0])

    def touch(self, key, expire):
        shared = self._lazy.get()
        with shared.lock(key):
            return until_done(shared.cache.touch, key, expire)

    def delete(self, key):
        shared = self._lazy.get()
        with shared.lock(key):
            return until_done(shared.cache.delete, key)

    def clear(self):
        until_done(self.cache.clear)


def until_done(change, *arguments):
    """Makes a change which is the same if it is made twice: again if the owner ended amid it, made or not."""
    while True:
        try:
            return change(*arguments)
        except Interrupted:
            pass


def _put(cache, key, pickled, expire):
    try:
        until_done(cache.set, key, pickled, expire)
    except TooLarge:
        # What was there is no longer what was stored last.
        until_done(cache.delete, key)
        return False
    return True
