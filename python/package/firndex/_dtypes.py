"""The shapes that a table records, as dtypes of numpy, and back. And single keys and values as bytes."""

import struct

import numpy

_SIMPLE = {
    "u1": "u8", "u2": "u16", "u4": "u32", "u8": "u64",
    "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
    "f4": "f32", "f8": "f64", "b1": "bool",
    # Numbers of ticks: the unit is the caller's.
    "M8": "i64", "m8": "i64",
    "f2": "[u8; 2]", "c8": "(f32, f32)", "c16": "(f64, f64)",
}  # fmt: skip
_CODES = {shape: code for code, shape in _SIMPLE.items() if code not in ("M8", "m8", "f2")}
_CODES["char"] = "U1"
_NOT_IN_NAMES = set("[](){}:;, \t\n\r")


def shape_of(dtype):
    """What a table records of keys or values of this dtype."""
    if dtype.subdtype is not None:
        base, lengths = dtype.subdtype
        shape = shape_of(base)
        for length in reversed(lengths):
            shape = f"[{shape}; {length}]"
        return shape
    if dtype.names is not None:
        parts, end = [], 0
        for name in dtype.names:
            field, offset = dtype.fields[name][:2]
            if offset != end:
                raise ValueError(f"{dtype} has gaps or another order than its fields; pack it, with align=False or "
                                 "numpy.lib.recfunctions.repack_fields")
            if not name or _NOT_IN_NAMES & set(name):
                raise ValueError(f"the field {name!r} cannot be recorded; its name may have no spaces, brackets, "
                                 "colons, semicolons and commas")
            parts.append(f"{name}: {shape_of(field)}")
            end += field.itemsize
        if end != dtype.itemsize:
            raise ValueError(f"{dtype} has a gap at its end; pack it, with align=False or "
                             "numpy.lib.recfunctions.repack_fields")
        return "{ " + ", ".join(parts) + " }"
    if not dtype.isnative:
        raise ValueError(f"{dtype} is big-endian; use {dtype.newbyteorder('=')}, and astype for arrays")
    if dtype.kind in "SV":
        return f"[u8; {dtype.itemsize}]"
    if dtype.kind == "U":
        return f"[char; {dtype.itemsize // 4}]"
    try:
        return _SIMPLE[f"{dtype.kind}{dtype.itemsize}"]
    except KeyError:
        raise ValueError(f"{dtype} has no fixed bytes that a table could keep; use numbers, bool, S, U or V with a "
                         "length, or structs of these; or keep it in a Store") from None


def dtype_of(shape):
    """The dtype of a shape, as `shape_of` writes it or the Rust library. Bytes become `V`, which keeps zeros."""
    return numpy.dtype(_Reader(shape).read())


class _Reader:
    def __init__(self, text):
        self.text = text
        self.rest = text

    def read(self):
        dtype = self.shape()
        if self.rest.strip():
            raise ValueError(f"{self.text!r} is no shape")
        return dtype

    def takes(self, mark):
        rest = self.rest.lstrip()
        if rest.startswith(mark):
            self.rest = rest[1:]
            return True
        return False

    def word(self):
        rest = self.rest.lstrip()
        end = next((at for at, c in enumerate(rest) if c in _NOT_IN_NAMES), len(rest))
        self.rest = rest[end:]
        return rest[:end]

    def shape(self):
        if self.takes("["):
            element = self.shape()
            self.takes(";")
            length = int(self.word())
            self.takes("]")
            if element == numpy.dtype("u1"):
                return numpy.dtype(f"V{length}")
            if element == numpy.dtype("U1"):
                return numpy.dtype(f"U{length}")
            return numpy.dtype((element, (length,)))
        if self.takes("("):
            return self.struct(")", lambda index: f"f{index}")
        if self.takes("{"):
            return self.struct("}", lambda index: self.name())
        word = self.word()
        if word in ("u128", "i128"):
            return numpy.dtype("V16")
        if word not in _CODES:
            raise ValueError(f"{self.text!r} is no shape that numpy has a dtype for")
        return numpy.dtype(_CODES[word])

    def name(self):
        name = self.word()
        self.takes(":")
        return name

    def struct(self, end, name):
        fields = []
        while not self.takes(end):
            fields.append((name(len(fields)), self.shape()))
            self.takes(",")
        return numpy.dtype(fields)


class Codec:
    """Single keys or values of a dtype, as the bytes that an array has of them, and columns of them."""

    def __init__(self, dtype, what):
        self.dtype = dtype
        self.what = what
        #: What an element of an array is, and its shape: those of `dtype`, unless that is an array itself.
        self.base, self.inner = dtype.base, dtype.shape
        self.is_plain = dtype.kind in "iufb" and dtype.itemsize != 2 or dtype.kind in "iu"
        self.packer = struct.Struct("<" + dtype.char.replace("l", "q").replace("L", "Q")) if self.is_plain else None

    def encode(self, value):
        """The bytes of one."""
        if self.packer is not None:
            try:
                return self.packer.pack(value)
            except struct.error as error:
                kind = ValueError if isinstance(value, int) else TypeError
                raise kind(f"the {self.what} {value!r} is no {self.dtype}: {error}") from None
        array = self.column([value])
        return array.tobytes()

    def decode(self, raw):
        """One from its bytes."""
        if self.packer is not None:
            return self.packer.unpack(raw)[0]
        array = self.array(raw)
        return array[0].copy() if self.dtype.names or self.inner else array.tolist()[0]

    def array(self, raw):
        """An array of the elements that these bytes have. It cannot be written."""
        return numpy.frombuffer(raw, self.dtype) if not self.inner else numpy.frombuffer(raw, self.base).reshape(
            -1, *self.inner)

    def list(self, array):
        """The elements of an array as Python has them: structs as tuples."""
        return array.tolist()

    def empty(self, length):
        """A new array."""
        return numpy.empty((length, *self.inner), self.base)

    def column(self, values):
        """An array of this dtype without gaps: `values` itself if it is one. Nothing is rounded or cut off."""
        if not isinstance(values, numpy.ndarray):
            if self.base.names is not None or self.base.kind == "V" and not hasattr(values, "__array__"):
                values = numpy.array(values if isinstance(values, list) else list(values), self.base)
            elif hasattr(values, "__array__") or isinstance(values, (list, tuple, range)):
                values = numpy.asarray(values)
            else:
                values = numpy.asarray(list(values))
        if values.shape[1:] != self.inner or values.ndim != 1 + len(self.inner):
            raise ValueError(f"the {self.what}s have the shape {values.shape}, expected {('n', *self.inner)}")
        if values.dtype != self.base:
            values = self.converted(values)
        if type(values) is not numpy.ndarray:
            values = values.view(numpy.ndarray)
        return numpy.ascontiguousarray(values)

    def converted(self, values):
        if values.size == 0:
            return values.astype(self.base)
        if numpy.can_cast(values.dtype, self.base, "safe"):
            return values.astype(self.base)
        if values.dtype.kind in "iu" and self.base.kind in "iu":
            converted = values.astype(self.base)
            if ((converted == values) & ((converted < 0) == (values < 0))).all():
                return converted
            raise ValueError(f"some {self.what}s do not fit into {self.base}")
        if values.dtype.itemsize == self.base.itemsize and {values.dtype.kind, self.base.kind} <= set("SV"):
            return values.view(self.base)
        if values.dtype.kind in "SU" and values.dtype.kind == self.base.kind:
            raise ValueError(f"some {self.what}s are longer than {self.base}: the array has {values.dtype}")
        raise TypeError(f"the {self.what}s are {values.dtype}, expected {self.base}, and converting them would change "
                        "some; use astype")
