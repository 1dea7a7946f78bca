"""Bad input raises; it never ends the process, and stored data stays."""

import os
import subprocess
import sys
import textwrap

import pytest

import firndex
from firndex import Store


@pytest.fixture
def store():
    with Store("a.firn") as store:
        store["a"] = b"1"
        yield store
        assert store["a"] == b"1" and store.check().is_sound


def test_wrong_types_are_named(store):
    for wrong in (7, 1.5, None, ["a"], {"a": 1}, object()):
        name = type(wrong).__name__
        with pytest.raises(TypeError, match=f"a key is {name}; expected bytes"):
            store[wrong]
        with pytest.raises(TypeError, match=f"a value is {name}; expected bytes"):
            store["b"] = wrong
        for call in (store.get, store.pop, store.setdefault, store.__contains__, store.__delitem__):
            with pytest.raises(TypeError):
                call(wrong)
    assert len(store) == 1


def test_batches_refuse_what_is_no_pair_before_anything_is_stored(store):
    for wrong in ([("b", b"2"), "c"], [("b", b"2"), ("c",)], [("b", b"2"), 7], 7, [("b", 2)], {"b": None}):
        with pytest.raises((TypeError, ValueError)):
            store.put_many(wrong)
    with pytest.raises(ValueError, match="entry 1 .* has 3 parts"):
        store.put_many([["b", b"2"], (1, 2, 3)])
    for wrong in ("key", b"key", 7, [7]):
        with pytest.raises(TypeError):
            store.get_many(wrong)
        with pytest.raises(TypeError):
            store.delete_many(wrong)
    assert len(store) == 1


def test_an_iterable_that_fails_stores_nothing(store):
    def failing():
        yield "b", b"2"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.put_many(failing())
    assert "b" not in store


def test_keys_that_are_too_long(store):
    for call in (
        lambda key: store.__setitem__(key, b""),
        lambda key: store.setdefault(key, b""),
        lambda key: store.put_many({"b": b"2", key: b""}),
        lambda key: store.compare_exchange(key, None, b""),
        lambda key: store.modify(key, lambda value: b""),
    ):
        with pytest.raises(firndex.Limit, match="the key has 65537 bytes"):
            call(b"k" * 65_537)
    long = b"k" * 65_537
    assert store.get(long) is None and long not in store and store.pop(long, None) is None
    assert store.get_many([long]) == [None] and store.delete_many([long]) == 0
    assert len(store) == 1


def test_values_that_are_too_long():
    with Store() as store:
        with pytest.raises(firndex.Limit, match="at most"):
            store["b"] = bytes((256 << 20) + 1)


def test_a_full_pool_says_so_and_goes_on():
    with Store(max_bytes=1 << 20) as store:
        with pytest.raises(firndex.PoolFull, match="max_bytes") as raised:
            for number in range(100_000):
                store[str(number)] = bytes(1000)
        assert raised.value.done is None
        assert len(store) == number and store["0"] == bytes(1000)
        del store["0"]
        store["again"] = bytes(1000)


def test_a_failed_batch_tells_what_took_effect():
    with Store(max_bytes=4 << 20) as store:
        pairs = [(str(n), bytes(300)) for n in range(30_000)]
        with pytest.raises(firndex.PoolFull, match="of 30000 entries took effect") as raised:
            store.put_many(pairs)
        done, undone = raised.value.done, raised.value.undone
        assert done == len(store) > 0 and done + len(undone) == len(pairs)
        undone = set(undone)
        assert all((key in store) == (index not in undone) for index, (key, _) in enumerate(pairs))


def test_closed_handles(store):
    iterator, items = iter(store), store.items()
    other = Store("b.firn")
    begun = iter(other)
    other.close()
    other.close()
    assert other.closed and not store.closed
    calls = [
        lambda: other["a"],
        lambda: other.__setitem__("a", b""),
        lambda: other.__delitem__("a"),
        lambda: "a" in other,
        lambda: len(other),
        lambda: list(other),
        lambda: list(other.items()),
        lambda: other.get("a"),
        lambda: other.pop("a", None),
        lambda: other.popitem(),
        lambda: other.setdefault("a"),
        lambda: other.clear(),
        lambda: other.put_many({"a": b""}),
        lambda: other.get_many(["a"]),
        lambda: other.delete_many(["a"]),
        lambda: other.compare_exchange("a", None, b""),
        lambda: other.modify("a", lambda value: value),
        lambda: other.sync(),
        lambda: other.commit(),
        lambda: other.compact(),
        lambda: other.backup("c.firn"),
        lambda: other.check(),
        lambda: other.stats(),
        lambda: next(begun),
        lambda: other.was_reset,
        lambda: other.role,
    ]
    for call in calls:
        with pytest.raises(firndex.Closed, match="closed"):
            call()
    with pytest.raises(ValueError):
        other["a"]
    assert list(iterator) == [b"a"] and list(items) == [(b"a", b"1")]


def test_an_iterator_whose_store_is_closed_raises():
    store = Store("b.firn")
    store.put_many((str(n), bytes(1000)) for n in range(20_000))
    iterators = [iter(store), iter(store.items()), iter(store.values())]
    for iterator in iterators:
        next(iterator)
    store.close()
    for iterator in iterators:
        with pytest.raises(firndex.Closed, match="closed while this iterator was in use"):
            for _ in iterator:
                pass
        assert list(iterator) == []
    with Store("b.firn") as store:
        assert len(store) == 20_000


def test_closing_amid_modify_is_refused(store):
    def close(value):
        store.close()

    with pytest.raises(firndex.Error, match="modify"):
        store.modify("b", close)
    assert not store.closed


def test_foreign_files_stay_as_they_are():
    for content in (b"not a pool" * 2000, b"#!/bin/sh\n", bytes(100_000)):
        with open("foreign", "wb") as file:
            file.write(content)
        for flag in ("r", "w", "c", "n", "x"):
            with pytest.raises((firndex.NotOpened, firndex.Exists)):
                Store("foreign", flag)
        with pytest.raises(firndex.Error):
            firndex.remove("foreign")
        with open("foreign", "rb") as file:
            assert file.read() == content


def test_paths_that_cannot_be_used():
    os.mkdir("directory")
    for path in ("directory", "none/here.firn", "nul\0.firn", "n" * 300):
        with pytest.raises((firndex.Error, ValueError)):
            Store(path)
    for path in (7, ["a"], object()):
        with pytest.raises(TypeError):
            Store(path)


def test_a_held_pool():
    holder = Store("a.firn", guests=False)
    with pytest.raises(firndex.Held, match="open in this process already"):
        Store("a.firn")
    code = """
        import firndex
        for options in ({"wait": 0}, {"wait": 0.05}, {"guests": False}):
            try:
                firndex.Store("a.firn", **options)
            except firndex.Held as error:
                assert isinstance(error, OSError)
                print(error)
    """
    told = run(code).stdout
    assert told.count("in use by another process") == 3 and told.count("the argument `guests`") == 3
    holder.close()


def test_waiting_for_a_pool_that_is_closed_meanwhile():
    holder = Store("b.firn", guests=False)
    code = 'import firndex; print("begun", flush=True); print(firndex.Store("b.firn", wait=60)["a"])'
    waiting = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout.readline() == "begun\n"
    holder["a"] = b"1"
    holder.close()
    assert waiting.communicate()[0] == "b'1'\n" and waiting.returncode == 0


def test_another_kind_of_pool_is_told(store):
    assert firndex.inspect("a.firn")["kind"] == "store"
    with pytest.raises(firndex.Missing):
        firndex.inspect("none.firn")


def test_not_logged():
    with Store() as store:
        with pytest.raises(firndex.NotLogged):
            store.commit()
        store.sync()


def test_system_failures_have_a_number():
    limited = """
        import resource, firndex
        store = firndex.Store("b.firn", durability="process")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, 1 << 22))
        import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            for number in range(100_000):
                store[str(number)] = bytes(1000)
        except (firndex.PoolFull, firndex.SystemFailure) as error:
            print(type(error).__name__, len(store) == number, store["0"] == bytes(1000))
    """
    assert run(limited).stdout.split()[1:] == ["True", "True"]


def run(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done
