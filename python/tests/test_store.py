"""A store is a mutable mapping, and everything in it outlives the handle."""

import collections.abc
import copy
import os
import pathlib
import pickle

import pytest

import firndex
from firndex import Store


@pytest.fixture
def store():
    with Store() as store:
        yield store


def test_it_is_a_mutable_mapping(store):
    assert isinstance(store, collections.abc.MutableMapping)
    store["a"] = b"1"
    store[b"b"] = bytearray(b"2")
    store[memoryview(b"c")] = memoryview(b"--3")[2:]
    assert store["a"] == store[b"a"] == b"1"
    assert dict(store) == {b"a": b"1", b"b": b"2", b"c": b"3"} == store
    assert sorted(store) == [b"a", b"b", b"c"]
    assert sorted(store.values()) == [b"1", b"2", b"3"]
    assert list(store.items()) == list(zip(store.keys(), store.values()))
    assert "a" in store and b"d" not in store
    assert (b"a", b"1") in store.items() and (b"a", b"2") not in store.items()
    assert b"3" in store.values() and b"4" not in store.values()
    assert store.keys() & {b"a", b"z"} == {b"a"}
    assert len(store) == len(store.items()) == 3
    del store["a"]
    assert store.get("a") is None and store.get("a", "none") == "none"
    for missing in (lambda: store["a"], lambda: store.__delitem__("a"), lambda: store.pop("a")):
        with pytest.raises(KeyError) as raised:
            missing()
        assert raised.value.args == ("a",)


def test_str_stands_for_its_utf8_bytes_in_keys_and_values(store):
    store["Köln"] = "größer"
    assert store["Köln".encode()] == "größer".encode()
    assert list(store.items()) == [("Köln".encode(), "größer".encode())]
    with pytest.raises(UnicodeEncodeError):
        store["\ud800"] = b""


def test_array_slices_are_stored_as_their_elements(store):
    store["every second"] = memoryview(b"a-b-c-")[::2]
    assert store["every second"] == b"abc"


def test_changes_of_one_key(store):
    assert store.setdefault("a", b"1") == b"1" and store.setdefault("a", b"2") == b"1"
    assert store.setdefault("empty") == b"" and store["empty"] == b""
    assert store.pop("a") == b"1" and store.pop("a", None) is None
    assert store.compare_exchange("k", None, b"new")
    assert not store.compare_exchange("k", None, b"newer")
    assert store.compare_exchange("k", b"new", b"newer") and store["k"] == b"newer"
    assert store.compare_exchange("k", b"newer", None) and "k" not in store
    assert store.modify("n", lambda n: (n or b"") + b"x") == b"x"
    assert store.modify("n", lambda n: n + b"x") == b"xx"
    assert store.modify("n", lambda n: None) is None and "n" not in store


def test_modify_lets_exceptions_through_and_stores_nothing(store):
    store["a"] = b"1"
    with pytest.raises(ZeroDivisionError):
        store.modify("a", lambda value: 1 // 0)
    with pytest.raises(TypeError, match="a value is int"):
        store.modify("a", lambda value: 7)
    assert store["a"] == b"1"


def test_modify_tries_again_after_a_change_in_between(store):
    seen = []

    def change(value):
        if not seen:
            store["a"] = b"other"
        seen.append(value)
        return (value or b"") + b"!"

    store["a"] = b"first"
    assert store.modify("a", change) == b"other!"
    assert seen == [b"first", b"other"]


def test_batches(store):
    store.put_many({"a": b"1", "b": b"2"})
    store.put_many((str(n), str(n * n)) for n in range(20_000))
    store.update([("c", b"3")], d=b"4")
    store |= {"e": b"5"}
    assert len(store) == 20_005
    assert store.get_many(["7", "nine", b"d"]) == [b"49", None, b"4"]
    assert store.get_many(str(n) for n in range(20_000)) == [str(n * n).encode() for n in range(20_000)]
    assert store.delete_many(str(n) for n in range(-5, 20_000)) == 20_000
    assert sorted(store) == [b"a", b"b", b"c", b"d", b"e"]
    assert store.get_many([]) == [] and store.delete_many([]) == 0
    store.put_many([])


def test_popitem_gives_each_pair_once(store):
    pairs = {str(n).encode(): b"v%d" % n for n in range(1000)}
    store.put_many(pairs)
    popped = dict(store.popitem() for _ in range(len(pairs)))
    assert popped == pairs
    with pytest.raises(KeyError):
        store.popitem()
    store["late"] = b"1"
    assert store.popitem() == (b"late", b"1")


def test_popitem_skips_keys_that_went_meanwhile(store):
    store.put_many((str(n), b"") for n in range(10))
    kept, _ = store.popitem()
    store.delete_many(key for key in list(store) if key != kept)
    with pytest.raises(KeyError):
        store.popitem()


def test_values_and_keys_of_any_size(store):
    for size in (0, 1, 100, 65_536, 1 << 20, 5 << 20):
        store[f"of {size}"] = bytes(size)
        assert store[f"of {size}"] == bytes(size)
    store[b""] = b"the empty key"
    longest = b"k" * 65_536
    store[longest] = b"long"
    assert store[b""] == b"the empty key" and longest in store


def test_what_is_stored_is_there_after_reopening():
    with Store("a.firn") as store:
        store["a"] = b"1"
    with Store("a.firn") as store:
        assert dict(store) == {b"a": b"1"}
    dropped = Store("a.firn")
    dropped["b"] = b"2"
    del dropped
    with Store("a.firn", "r") as store:
        assert len(store) == 2


def test_paths_may_be_bytes_and_path_objects():
    for name in ("str.firn", b"bytes.firn", pathlib.Path("path.firn")):
        with Store(name) as store:
            assert store.path == pathlib.Path(os.fsdecode(name))
    assert firndex.Store().path is None


def test_flags():
    with pytest.raises(firndex.Missing):
        Store("a.firn", "w")
    with pytest.raises(FileNotFoundError):
        Store("a.firn", "r")
    with Store("a.firn", "x") as store:
        store["a"] = b"1"
    with pytest.raises(firndex.Exists):
        Store("a.firn", "x")
    with Store("a.firn", "w") as store:
        assert len(store) == 1
    with Store("a.firn", "r") as store:
        with pytest.raises(firndex.ReadOnly):
            store["b"] = b"2"
    with Store("a.firn", "n") as store:
        assert len(store) == 0
    with pytest.raises(ValueError, match="the flag is 'q'|the flag is \"q\""):
        Store("a.firn", "q")


def test_options_reach_the_pool():
    options = dict(durability="commit", max_bytes=1 << 30, capacity=100_000, engine="level", durable_every=0.01)
    with Store("a.firn", **options) as store:
        stats = store.stats()
        assert stats["durability"] == "commit" and stats["engine"] == "level"
        assert stats["capacity"] >= 100_000 and stats["log"]["failure"] is None
        store["a"] = b"1"
        store.commit()
    assert firndex.inspect("a.firn")["durability"] == "commit"
    with Store("b.firn", log_directory="."):
        pass
    for wrong, message in [
        (dict(durability="always"), "periodic"),
        (dict(engine="btree"), "btree"),
        (dict(wait=-1), "wait"),
        (dict(max_bytes=1), "max_bytes"),
        (dict(compact_at=7.0), "compact_at"),
    ]:
        with pytest.raises(ValueError, match=message):
            Store("c.firn", **wrong)
    with pytest.raises(TypeError, match="no argument colour"):
        Store("c.firn", colour="red")
    with pytest.raises(TypeError, match="no argument colour"):
        Store("c.firn", colour=None)
    assert not os.path.exists("c.firn")


def test_backup_check_and_compact(store):
    store.put_many((str(n), bytes(100)) for n in range(5000))
    assert store.backup("copy.firn") == (5000, os.path.getsize("copy.firn"), False)
    with pytest.raises(FileExistsError):
        store.backup("copy.firn")
    store["more"] = b""
    assert store.backup("copy.firn", replace=True).pairs == 5001
    with Store("copy.firn") as copied:
        assert copied == store
    report = store.check()
    assert report.is_sound and report.pairs == 5001 and report.findings == []
    for number in range(5000):
        if number % 10:
            del store[str(number)]
    assert store.compact() > 100_000


def test_a_logged_backup_shows_one_moment():
    with Store("a.firn", durability="periodic") as store:
        store["a"] = b"1"
        assert store.backup("b.firn").is_of_one_moment


def test_iteration_beside_writers_gives_each_lasting_key_once(store):
    lasting = {b"lasting %d" % n for n in range(5000)}
    store.put_many((key, b"") for key in lasting)
    seen = []
    for number, key in enumerate(store):
        store[b"new %d" % number] = b""
        store.pop(b"new %d" % (number - 3), None)
        if key in lasting:
            seen.append(key)
        if number > 50_000:
            break
    assert len(seen) == len(lasting) and set(seen) == lasting


def test_an_iterator_may_be_dropped_at_any_time(store):
    store.put_many((str(n), bytes(100)) for n in range(20_000))
    for _ in range(100):
        iterator = iter(store.items())
        next(iterator)
    del iterator
    assert len(store) == 20_000
    used_up = iter(store)
    assert sum(1 for _ in used_up) == 20_000
    assert list(used_up) == []


def test_large_values_are_iterated_over(store):
    store.put_many((str(n), bytes([n]) * (1 << 19)) for n in range(20))
    assert all(value == bytes([int(key)]) * (1 << 19) for key, value in store.items())


def test_repr_tells_path_and_state(store):
    assert repr(store) == "<firndex.Store in memory, 0 pairs>"
    with Store("a.firn") as in_file:
        in_file["a"] = b"1"
        assert repr(in_file) == '<firndex.Store "a.firn", 1 pairs>'
        assert repr(in_file.keys()) == '<keys of <firndex.Store "a.firn", 1 pairs>>'
    assert repr(in_file) == '<firndex.Store "a.firn", closed>'


def test_pickling_and_copying_are_refused_with_a_way_on(store):
    with Store("a.firn") as in_file:
        for take in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match='pass the path "a.firn" on'):
                take(in_file)
    with pytest.raises(firndex.NotPicklable, match="in this process only"):
        pickle.dumps(store)


def test_truth_equality_and_hash(store):
    assert not store
    store["a"] = b"1"
    assert store and store == {b"a": b"1"} and store != {"a": b"1"} and store != 7
    assert {store: 1}[store] == 1


def test_subclasses_work():
    class Counting(Store):
        def __setitem__(self, key, value):
            self.count = getattr(self, "count", 0) + 1
            super().__setitem__(key, value)

    with Counting("a.firn") as store:
        store["a"] = b"1"
        assert store.count == 1 and store["a"] == b"1"


def test_a_damaged_cache_begins_anew_if_it_may():
    Store("a.firn", durability="process").close()
    with open("a.firn", "r+b") as file:
        file.truncate(10_000)
    with pytest.raises(firndex.Corrupt, match="truncated"):
        Store("a.firn")
    with Store("a.firn", reset_if_refused=True) as store:
        assert "truncated" in store.was_reset and len(store) == 0


def test_remove_takes_the_log_with_it():
    Store("a.firn", durability="periodic").close()
    assert sorted(os.listdir()) == ["a.firn", "a.firn.safe"]
    firndex.remove("a.firn")
    assert os.listdir() == []
