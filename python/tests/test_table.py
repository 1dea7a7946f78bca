"""A table keeps what arrays have, of any dtype with fixed bytes, and is a mapping."""

import collections.abc
import os
import pickle
import threading

import pytest

import firndex
from firndex import Store, Table

np = pytest.importorskip("numpy")

PLACE = np.dtype([("file", "u4"), ("offset", "u8")])
NESTED = np.dtype([("id", "S8"), ("at", PLACE), ("weights", "f4", (3,)), ("on", "?")])
DTYPES = [
    ("u8", "u8"), ("i8", "f8"), ("f8", "i8"), ("S8", "M8[s]"), ("u4", "u4"), ("i1", "?"), ("S16", "V32"), ("U3", "f4"),
    ("V16", PLACE), (PLACE, NESTED), ("u2", "c16"), ("i4", np.dtype(("f4", (8, 2)))), ("S256", "V256"), ("u8", "f2"),
]  # fmt: skip


def some(dtype, count, seed):
    """Different elements, with every byte in use."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    if dtype.subdtype:
        return random.random((count, *dtype.shape)).astype(dtype.base)
    if dtype.names:
        array = np.zeros(count, dtype)
        for name in dtype.names:
            array[name] = some(dtype.fields[name][0], count, seed + 1)
        return array
    if dtype.kind in "U":
        return np.array([f"{n:03x}"[:3] for n in range(count)], dtype)
    if dtype.kind in "SV":
        return np.frombuffer(random.bytes(count * dtype.itemsize), dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        return np.arange(count).astype(dtype)
    return random.permutation(count * 3)[:count].astype(dtype)


@pytest.mark.parametrize(("key", "value"), DTYPES, ids=str)
def test_arrays_of_every_dtype_go_in_and_come_out(key, value):
    count = 100
    keys, values = some(key, count, 1), some(value, count, 2)
    with Table("a.firn", key=key, value=value) as table:
        table.put_many(keys, values)
        assert len(table) == count
        got, found = table.get_many(keys)
        assert found.all() and got.dtype == values.dtype and (got == values).all()
        table.backup("b.firn")
    with Table("b.firn", "r", key=key, value=value) as table:
        all_keys, all_values = table.to_arrays()
        got, found = table.get_many(all_keys)
        assert found.all() and len(all_keys) == count and got.tobytes() == all_values.tobytes()
        assert table.check().is_sound
    with Table("a.firn") as table:
        assert [dtype.itemsize for dtype in table.dtypes] == [np.dtype(key).itemsize, np.dtype(value).itemsize]
        found = table.delete_many(keys[: count // 2])
        assert found.all() and len(table) == count - count // 2
        assert not table.delete_many(keys[: count // 2]).any()


def test_it_is_a_mutable_mapping():
    with Table(key="i8", value="f8") as table:
        assert isinstance(table, collections.abc.MutableMapping)
        table[1], table[-2] = 1.5, 2
        assert table[1] == 1.5 and table[-2] == 2.0 and dict(table) == {1: 1.5, -2: 2.0} == table
        assert sorted(table) == [-2, 1] and sorted(table.values()) == [1.5, 2.0]
        assert 1 in table and 3 not in table and (1, 1.5) in table.items() and 2.0 in table.values()
        assert table.get(3) is None and table.get(3, "none") == "none"
        assert table.setdefault(3, 9.0) == 9.0 and table.setdefault(3, 8.0) == 9.0
        assert table.pop(3) == 9.0 and table.pop(3, None) is None
        for missing in (lambda: table[3], lambda: table.pop(3), lambda: table.__delitem__(3)):
            with pytest.raises(KeyError) as raised:
                missing()
            assert raised.value.args == (3,)
        table.update({5: 5.0})
        table |= [(6, 6.0)]
        del table[1]
        assert sorted(table.popitem() for _ in range(3)) == [(-2, 2.0), (5, 5.0), (6, 6.0)]
        with pytest.raises(KeyError):
            table.popitem()
        assert not table and table.to_arrays()[0].size == 0


def test_changes_of_one_key_are_atomic():
    with Table() as table:
        assert table.compare_exchange(1, None, 10) and not table.compare_exchange(1, None, 11)
        assert table.compare_exchange(1, 10, None) and 1 not in table

        def count():
            for _ in range(1000):
                table.modify(7, lambda count: (count or 0) + 1)

        threads = [threading.Thread(target=count) for _ in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        assert table[7] == 4000
        assert table.modify(7, lambda count: None) is None and 7 not in table


def test_structs_are_read_by_their_fields():
    with Table("a.firn", key="S4", value=PLACE) as table:
        table[b"one"] = (1, 4096)
        table.put_many([b"two"], np.array([(2, 8192)], PLACE))
        assert table[b"one"]["offset"] == 4096 and table[b"two"]["file"] == 2
        assert {key: int(value["file"]) for key, value in table.items()} == {b"one": 1, b"two": 2}
        assert firndex.inspect("a.firn")["value_shape"] == "{ file: u32, offset: u64 }"
    with pytest.raises(firndex.Mismatch, match="value type"):
        Table("a.firn", key="S4", value=np.dtype([("file", "u4"), ("length", "u8")]))
    with Table("a.firn") as table:
        assert table.dtypes[1] == PLACE and table[b"two"]["offset"] == 8192


def test_dtypes_are_recorded_and_demanded():
    Table("a.firn", key="i8", value="f8").close()
    with Table("a.firn") as table:
        assert table.dtypes == (np.dtype("i8"), np.dtype("f8"))
    with Table("a.firn", value="f8") as table:
        assert table.dtypes == (np.dtype("i8"), np.dtype("f8"))
    with pytest.raises(firndex.Mismatch, match="`i64`, expected `u64`"):
        Table("a.firn", key="u8", value="f8")
    with pytest.raises(firndex.Mismatch, match="size|bytes"):
        Table("a.firn", key="u4", value="f8")
    Store("store.firn").close()
    with pytest.raises(firndex.Mismatch, match="kind"):
        Table("store.firn")
    with pytest.raises(firndex.Mismatch, match="kind"):
        Store("a.firn")
    assert Table().dtypes == (np.dtype("u8"), np.dtype("u8"))


@pytest.mark.parametrize("wrong", [
    "O", "S0", ">i8", "V257", np.dtype([("a", "u1"), ("b", "u8")], align=True), np.dtype([("a b", "u8")]), "longdouble",
    np.dtype({"names": ["a", "b"], "formats": ["u4", "u4"], "offsets": [4, 0]}),
], ids=str)  # fmt: skip
def test_dtypes_that_no_table_can_keep_are_refused(wrong):
    with pytest.raises(ValueError):
        Table("a.firn", key=wrong, value="u8")
    assert os.listdir() == []


def test_values_without_bytes_make_a_set():
    with Table(key="u8", value="V0") as table:
        table.put_many([1, 2], np.zeros(2, "V0"))
        assert len(table) == 2 and table.get_many([2, 3])[1].tolist() == [True, False]


def test_nothing_is_rounded_cut_off_or_wrapped():
    with Table(key="u4", value="i2") as table:
        for key in (-1, 1 << 32, 1.5, "1", None, b"1"):
            with pytest.raises((TypeError, ValueError)):
                table[key] = 1
            with pytest.raises((TypeError, ValueError, OverflowError)):
                table.put_many([key], [1])
        for value in (1 << 15, -(1 << 15) - 1, 0.5, None):
            with pytest.raises((TypeError, ValueError)):
                table[1] = value
            with pytest.raises((TypeError, ValueError)):
                table.put_many([1], [value])
        assert len(table) == 0
        table.put_many(np.array([1, 2], "i8"), range(2))
        table.put_many(np.array([3], "u1"), np.array([True]))
        assert dict(table) == {1: 0, 2: 1, 3: 1}
    with Table(key="i8", value="i8") as table:
        with pytest.raises(ValueError, match="do not fit"):
            table.put_many(np.array([1 << 63], "u8"), [1])
    with Table(key="S4", value="S4") as table:
        for key in (b"12345", "1234", 7):
            with pytest.raises((TypeError, ValueError)):
                table[key] = b""
            with pytest.raises((TypeError, ValueError)):
                table.put_many([key], [b""])
        assert len(table) == 0


def test_arrays_that_do_not_fit_are_refused():
    with Table(key="i8", value="i8") as table:
        for keys, values in [([1, 2], [1]), ([[1, 2]], [[1, 2]]), (1, 1), ([], [1])]:
            with pytest.raises((ValueError, TypeError)):
                table.put_many(keys, values)
        with pytest.raises((TypeError, ValueError)):
            table.put_many(["a"], [1])
        for out in (np.zeros(1), np.zeros(2, "i8"), np.zeros(1, "i4"), [0], np.zeros((1, 1), "i8")):
            with pytest.raises((TypeError, ValueError)):
                table.get_many([1], out)
        out = np.zeros(4, "i8")
        with pytest.raises(ValueError, match="gaps"):
            table.get_many([1, 2], out[::2])
        out.flags.writeable = False
        with pytest.raises(ValueError, match="can be written"):
            table.get_many([1, 2, 3, 4], out)
        same = np.arange(3)
        with pytest.raises(ValueError, match="shares memory"):
            table.get_many(same, same)
        assert len(table) == 0


def test_arrays_with_gaps_and_subclasses_of_arrays_are_taken():
    class Sub(np.ndarray):
        pass

    with Table(key="i8", value="i8") as table:
        array = np.arange(20)
        table.put_many(array[::2], array[::-2])
        assert table[0] == 19 and table[18] == 1
        values, found = table.get_many(array[::-1])
        assert found.tolist() == [False, True] * 10
        table.put_many(array.view(Sub), np.ma.masked_array(array).data)
        assert table[7] == 7


def test_results_go_where_the_caller_wants_them():
    with Table(key="i8", value="f8") as table:
        table.put_many([1, 2], [10, 20])
        out = np.full(3, 7.0)
        values, found = table.get_many([2, 3, 1], out)
        assert values is out and out.tolist() == [20.0, 0.0, 10.0] and found.tolist() == [True, False, True]


def test_large_batches_repeat_keys_in_order():
    with Table(key="i8", value="i8") as table:
        keys = np.arange(600_000) % 250_000
        table.put_many(keys, np.arange(600_000))
        assert len(table) == 250_000
        values, found = table.get_many(np.arange(-10, 250_000))
        assert found[10:].all() and not found[:10].any() and not values[:10].any()
        last = np.zeros(250_000, int)
        last[keys] = np.arange(600_000)
        assert (values[10:] == last).all()
        got = table.to_arrays()
        assert (np.sort(got[0]) == np.arange(250_000)).all() and (last[got[0]] == got[1]).all()
        assert table.delete_many(keys).sum() == 250_000 and len(table) == 0


def test_a_failed_batch_tells_what_took_effect():
    with Table(key="i8", value="i8", max_bytes=1 << 20) as table:
        keys = np.arange(500_000)
        with pytest.raises(firndex.PoolFull, match="of 500000 entries took effect") as raised:
            table.put_many(keys, keys)
        undone = raised.value.undone
        assert raised.value.done == len(table) > 0 and raised.value.done + len(undone) == len(keys)
        found = table.get_many(keys)[1]
        assert (np.flatnonzero(~found) == undone).all()


def test_more_sizes_at_once_than_there_are_places_for():
    tables = [Table(key="u4", value="u4"), Table(key="u4", value="u4"), Table(key="S16", value="V20"), Table()]
    with pytest.raises(firndex.BadOption, match="close one of them"):
        Table(key="u2", value="u2")
    tables[0][1], tables[1][1], tables[2][b"a"] = 5, 6, bytes(20)
    tables[0].close()
    with pytest.raises(firndex.BadOption):
        Table(key="u2", value="u2")
    tables[2].close()
    with Table(key="u2", value="u2") as other:
        other[1] = 2
        assert other[1] == 2 and tables[1][1] == 6
    tables[1].close()
    with pytest.raises(firndex.Error):
        Table("no/directory.firn", key="u1", value="u1")
    with Table(key="u1", value="u1"), Table(key="u2", value="u1"):
        pass


def test_closed_forked_and_pickled_handles():
    table = Table("a.firn", key="i8", value="f8")
    table[1] = 1.0
    assert repr(table) == '<firndex.Table "a.firn", int64 to float64, 1 pairs>'
    calls = [
        lambda: table[1],
        lambda: table.__setitem__(1, 1),
        lambda: len(table),
        lambda: list(table),
        lambda: table.get_many([1]),
        lambda: table.put_many([1], [1]),
        lambda: table.delete_many([1]),
        lambda: table.to_arrays(),
        lambda: table.modify(1, lambda value: value),
        lambda: table.setdefault(1, 1),
        lambda: table.pop(1, None),
        lambda: table.clear(),
        lambda: table.sync(),
        lambda: table.stats(),
        lambda: table.check(),
    ]
    with pytest.raises(TypeError, match="a.firn"):
        pickle.dumps(table)
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            for call in calls:
                try:
                    call()
                except firndex.Forked:
                    refused += 1
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls)
    pieces = table.arrays()
    table.close()
    table.close()
    for call in [*calls, lambda: next(pieces)]:
        with pytest.raises(firndex.Closed):
            call()
    assert repr(table) == '<firndex.Table "a.firn", int64 to float64, closed>'


def test_threads_read_and_write_arrays_at_once():
    with Table(key="i8", value="i8") as table:
        def write(first):
            for begin in range(first, 200_000, 40_000):
                keys = np.arange(begin, begin + 20_000)
                table.put_many(keys, keys * 2)

        def read():
            for _ in range(20):
                values, found = table.get_many(np.arange(200_000))
                assert (values[found] == 2 * np.flatnonzero(found)).all()

        threads = [threading.Thread(target=write, args=(first,)) for first in (0, 20_000)]
        threads += [threading.Thread(target=read) for _ in range(2)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        assert len(table) == 200_000 and table.check().is_sound
