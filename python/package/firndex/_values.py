"""Values of any type in a shared cache, as frameworks for the web keep them."""

import pickle

from ._errors import Interrupted, TooLarge
from ._shared import Lazy

#: Stands for a value that is not there.
MISSING = object()


class _Added(Exception):
    """Has the cache keep nothing by itself, since that would replace what others have stored meanwhile."""


class Values:
    """Values in the cache at a path. They are pickled, unless `dumps` and `loads` name another codec."""

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
        return _put(self.cache, key, self._dumps(value), expire)

    def add(self, key, value, expire):
        """Stores a value if there is none, and returns whether it did."""
        cache = self.cache
        if key in cache:
            return False
        pickled = self._dumps(value)
        try:
            # If the owner ends amid this, it is told that somebody has added it, who may be this one.
            return until_done(cache.add, key, pickled, expire)
        except TooLarge:
            return False

    def change(self, key, function):
        """Stores what `function` makes of the value, and returns it. The end stays. KeyError if there is no value.

        It is called again if others have changed the value meanwhile.
        """
        cache = self.cache
        while True:
            found = cache[key]
            value = function(self._loads(found))
            pickled = self._dumps(value)
            try:
                if cache.replace_if(key, found, pickled):
                    return value
            except TooLarge:
                # What was there is no longer what was stored last.
                self.delete(key)
                return value
            except Interrupted:
                # The owner has ended, and may have made the change before.
                if cache.get(key) == pickled:
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
        return until_done(self.cache.touch, key, expire)

    def delete(self, key):
        return until_done(self.cache.delete, key)

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
