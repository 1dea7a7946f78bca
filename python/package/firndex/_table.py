"""Tables as mappings and as arrays."""

from collections.abc import ItemsView, KeysView, MutableMapping, ValuesView

from . import _firndex
from ._errors import Error
from ._store import _MISSING, Lasting, _open


class _Keys(KeysView):
    __slots__ = ()

    def __repr__(self):
        return f"<keys of {self._mapping!r}>"


class _Values(ValuesView):
    __slots__ = ()

    def __iter__(self):
        codec = self._mapping._value
        for _, values in self._mapping.arrays():
            yield from values if codec.dtype.names or codec.inner else codec.list(values)

    def __contains__(self, value):
        return any(value == other for other in self)

    def __repr__(self):
        return f"<values of {self._mapping!r}>"


class _Items(ItemsView):
    __slots__ = ()

    def __iter__(self):
        table = self._mapping
        for keys, values in table.arrays():
            plain = not (table._value.dtype.names or table._value.inner)
            yield from zip(table._key.list(keys), table._value.list(values) if plain else values)

    def __repr__(self):
        return f"<items of {self._mapping!r}>"


class Table(Lasting, _firndex.Table, MutableMapping):
    """A map of keys and values of fixed sizes, in and out of numpy's arrays, that outlives the process.

    `Table(path, key=..., value=...)` opens the pool at `path`, or creates it. `Table()` is one in memory. `key` and
    `value` are dtypes: numbers, `bool`, `S16`, `U8`, `V32`, arrays and structs of these, of up to 256 bytes each. A new
    table records them. An existing one has them recorded, so they can be left out, and others are refused. Default:
    `uint64`. Keys are compared by their bytes: -0.0 and 0.0 are two keys.

    Batches of arrays are fast: nothing is copied element by element in Python, and other threads run meanwhile. Single
    calls are those of a dict. The promises, `flag` and the other arguments are those of `Store`.

    >>> import numpy
    >>> from firndex import Table
    >>> with Table("squares.firn", key="i8", value="f8") as squares:
    ...     numbers = numpy.arange(5)
    ...     squares.put_many(numbers, numbers ** 2.0)
    ...     squares.get_many([3, 4, 5])
    (array([ 9., 16.,  0.]), array([ True,  True, False]))
    >>> with Table("squares.firn", "r") as squares:
    ...     squares[2], squares.dtypes
    (4.0, (dtype('int64'), dtype('float64')))
    """

    __slots__ = ("__weakref__", "_key", "_value")

    def __new__(cls, path=None, flag="c", *, key=None, value=None, **options):
        import numpy

        from ._dtypes import Codec, dtype_of, shape_of

        recorded = [None, None]
        if (key is None or value is None) and path is not None and flag in ("r", "w", "c"):
            recorded = _recorded(path)
        dtypes, shapes = [], []
        for dtype, shape in zip((key, value), recorded):
            if dtype is None and shape is not None:
                # Several shapes have one dtype, so what the pool says counts.
                dtypes.append(dtype_of(shape))
                shapes.append(shape)
            else:
                dtypes.append(numpy.dtype("u8" if dtype is None else dtype))
                shapes.append(shape_of(dtypes[-1]))
        table = super().__new__(cls, path, flag, *shapes, **options)
        table._key, table._value = Codec(dtypes[0], "key"), Codec(dtypes[1], "value")
        return table

    def __init__(self, path=None, flag="c", *, key=None, value=None, **options):
        _open.add(self)

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        if self is other:
            return True
        return MutableMapping.__eq__(self, other)

    def __repr__(self):
        place, state = self._describe()
        return f"<firndex.Table {place}, {self._key.dtype} to {self._value.dtype}, {state}>"

    @property
    def dtypes(self):
        """The dtypes of keys and values."""
        return self._key.dtype, self._value.dtype

    def get_many(self, keys, out=None):
        """The values of an array of keys, zeros where there is none, and an array of where there is one.

        `out` takes the values, if it is an array of their dtype without gaps.

        >>> table = Table(key="i8", value="i8")
        >>> table.put_many([1, 2], [10, 20])
        >>> table.get_many([2, 3])
        (array([20,  0]), array([ True, False]))
        """
        import numpy

        keys = self._key.column(keys)
        found = numpy.empty(len(keys), bool)
        if out is None:
            out = self._value.empty(len(keys))
        elif type(out) is not numpy.ndarray or out.dtype != self._value.base or out.shape[1:] != self._value.inner:
            raise TypeError(f"`out` must be a numpy.ndarray of {self._value.dtype} with an element for each key")
        elif numpy.may_share_memory(out, keys):
            raise ValueError("`out` shares memory with the keys; pass another array")
        self._get_many(keys, out, found)
        return out, found

    def put_many(self, keys, values):
        """Store the pairs of two arrays, in order. The batch is not atomic; errors are as in `Store.put_many`.

        >>> import numpy
        >>> place = numpy.dtype([("file", "u4"), ("offset", "u8")])
        >>> places = Table(key="S16", value=place)
        >>> places.put_many([b"first", b"second"], [(1, 4096), (1, 8192)])
        >>> int(places[b"second"]["offset"])
        8192
        """
        self._put_many(self._key.column(keys), self._value.column(values))

    def delete_many(self, keys):
        """Remove the keys of an array, and return an array of which were there.

        >>> table = Table()
        >>> table[1] = 10
        >>> table.delete_many([1, 2])
        array([ True, False])
        """
        import numpy

        keys = self._key.column(keys)
        found = numpy.zeros(len(keys), bool)
        self._delete_many(keys, found)
        return found

    def arrays(self):
        """Iterate over the pairs in pieces: an array of keys, and one of their values.

        Its promises are those of iterating over a `Store`.

        >>> table = Table()
        >>> table.put_many([1, 2, 3], [10, 20, 30])
        >>> sum(int(values.sum()) for keys, values in table.arrays())
        60
        """
        return ((self._key.array(keys), self._value.array(values)) for keys, values in self._pieces())

    def to_arrays(self):
        """All keys and all values, in no order.

        >>> table = Table()
        >>> table[1] = 10
        >>> table.to_arrays()
        (array([1], dtype=uint64), array([10], dtype=uint64))
        """
        pieces = list(self._pieces())
        keys, values = (b"".join(column) for column in zip(*pieces)) if pieces else (b"", b"")
        return self._key.array(keys), self._value.array(values)

    def __getitem__(self, key):
        found = self._get(self._key.encode(key))
        if found is None:
            raise KeyError(key)
        return self._value.decode(found)

    def __setitem__(self, key, value):
        self._put(self._key.encode(key), self._value.encode(value))

    def __delitem__(self, key):
        if self._take(self._key.encode(key)) is None:
            raise KeyError(key)

    def __contains__(self, key):
        return self._get(self._key.encode(key)) is not None

    def __iter__(self):
        for keys, _ in self.arrays():
            yield from self._key.list(keys)

    def keys(self):
        """The keys, as those of a dict; structs are tuples."""
        return _Keys(self)

    def values(self):
        """The values, in the order of `keys` while nothing changes."""
        return _Values(self)

    def items(self):
        """The pairs, in the order of `keys` while nothing changes."""
        return _Items(self)

    def get(self, key, default=None):
        """The value of `key`, or `default` without one."""
        found = self._get(self._key.encode(key))
        return default if found is None else self._value.decode(found)

    def pop(self, key, default=_MISSING):
        """Remove `key` and return its value, in one atomic step. Without the key, `default` or KeyError."""
        found = self._take(self._key.encode(key))
        if found is not None:
            return self._value.decode(found)
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self):
        """Remove some pair and return it. KeyError if the table is empty.

        Each call looks for a pair anew, so `to_arrays` and `clear` empty a table faster.
        """
        for keys, _ in self.arrays():
            for key in self._key.list(keys):
                value = self.pop(key, _MISSING_VALUE)
                if value is not _MISSING_VALUE:
                    return key, value
        raise KeyError("popitem(): the table is empty")

    def setdefault(self, key, default=None):
        """The value of `key`. Without one, store `default` and return it, in one atomic step."""
        return self._value.decode(self._insert(self._key.encode(key), self._value.encode(default)))

    def update(self, other=(), /):
        """Store the pairs of a mapping, or of an iterable. It is not atomic as a whole.

        >>> table = Table()
        >>> table.update({1: 10, 2: 20})
        >>> len(table)
        2
        """
        if isinstance(other, Table):
            for keys, values in other.arrays():
                self.put_many(keys, values)
            return
        pairs = list(dict(other).items())
        self.put_many([key for key, _ in pairs], [value for _, value in pairs])

    def __ior__(self, other):
        self.update(other)
        return self

    def compare_exchange(self, key, expected, new):
        """Change the state of `key` from `expected` to `new` in one atomic step, and return whether it did.

        None means absent, on either side.

        >>> table = Table()
        >>> table.compare_exchange(1, None, 10), table.compare_exchange(1, 11, None)
        (True, False)
        """
        return self._exchange(self._key.encode(key), self._state(expected), self._state(new))

    def modify(self, key, function):
        """Pass the value of `key` to `function` and store what that returns, in one atomic step. Return what it stored.

        None means absent, on either side. The function may run several times.

        >>> visits = Table()
        >>> [visits.modify(7, lambda count: (count or 0) + 1) for _ in range(3)]
        [1, 2, 3]
        """
        raw = self._key.encode(key)
        while True:
            found = self._get(raw)
            new = function(None if found is None else self._value.decode(found))
            if self._exchange(raw, found, self._state(new)):
                return new

    def _state(self, value):
        return None if value is None else self._value.encode(value)


_MISSING_VALUE = object()


def _recorded(path):
    """The shapes of keys and values that the pool records, if there is one."""
    try:
        info = _firndex.inspect(path)
    except (Error, OSError):
        # Opening tells more: there is none, or it can be restored.
        return [None, None]
    sizes = info["key_bytes"], info["value_bytes"]
    if info["kind"] != "table" or sizes == (8, 8) and info["key_shape"] is None:
        return [info["key_shape"], info["value_shape"]]
    return [
        f"[u8; {size}]" if shape is None else shape
        for shape, size in zip((info["key_shape"], info["value_shape"]), sizes)
    ]
