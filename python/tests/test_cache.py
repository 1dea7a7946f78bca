"""A cache keeps what is worth most within its bound, up to its end, and outlives the process."""

import copy
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from datetime import timedelta

import pytest

import firndex
from firndex import Cache, Store

#: Long enough that no test is still running when it is over.
LONG = 3600


@pytest.fixture
def cache():
    with Cache(capacity=1 << 20) as cache:
        yield cache


def until_gone(cache, key):
    deadline = time.monotonic() + 60
    while cache.get(key) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def run(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_single_calls(cache):
    cache["Köln"] = "größer"
    cache[b"b"] = bytearray(b"2")
    cache[memoryview(b"c")] = memoryview(b"--3")[2:]
    assert cache["Köln".encode()] == "größer".encode() and cache["b"] == b"2" and cache["c"] == b"3"
    assert type(cache["b"]) is bytes and "b" in cache and "d" not in cache and len(cache) == 3
    assert cache.get("d") is None and cache.get("d", 7) == 7
    cache.set("b", b"4")
    assert cache.pop("b") == b"4" and cache.pop("b", None) is None
    del cache["c"]
    assert cache.delete("Köln") and not cache.delete("Köln")
    for missing in (lambda: cache["c"], lambda: cache.__delitem__("c"), lambda: cache.pop("c"),
                    lambda: cache.time_left("c")):
        with pytest.raises(KeyError) as raised:
            missing()
        assert raised.value.args == ("c",)
    cache["a"] = b"1"
    cache.clear()
    assert len(cache) == 0 and "a" not in cache and list(cache.items()) == []


def test_batches(cache):
    pairs = {str(number): bytes(number % 100) for number in range(2000)}
    cache.set_many(pairs)
    cache.set_many([("timed", b"1"), ["timed too", b"2"]], expire=LONG)
    assert cache.get_many([*pairs, "none"]) == [*pairs.values(), None]
    assert cache.time_left("1") is None and LONG - 600 < cache.time_left("timed too") <= LONG
    assert cache.delete_many(["timed", "none", "1"]) == 2 and "1" not in cache
    for wrong in ("key", b"key", 7, [7]):
        for call in (cache.get_many, cache.delete_many):
            with pytest.raises(TypeError):
                call(wrong)
    for wrong in ([("b", b"2"), "c"], [("b", b"2"), 7], 7, [("b", 2)], {"b": None}):
        with pytest.raises((TypeError, ValueError)):
            cache.set_many(wrong)
    assert "b" not in cache


def test_ends_are_seconds_or_timedeltas(cache):
    for expire in (LONG, float(LONG), timedelta(seconds=LONG), True * LONG):
        cache.set("a", b"1", expire)
        assert LONG - 600 < cache.time_left("a") <= LONG
    for forever in (None, timedelta.max, float("inf"), 1e30):
        cache.set("a", b"1", forever)
        assert cache["a"] == b"1" and cache.time_left("a") is None
    for over in (0, -1, -0.5, timedelta(0), timedelta(days=-1), float("-inf")):
        cache.set("a", b"1")
        cache.set("a", b"2", expire=over)
        assert "a" not in cache
    for wrong in ("60", b"60", [60], object()):
        for call in (lambda: cache.set("a", b"1", wrong), lambda: cache.touch("a", wrong),
                     lambda: cache.set_many({"a": b"1"}, wrong),
                     lambda: cache.get_or_compute("a", lambda: b"1", wrong)):
            with pytest.raises(TypeError, match=f"expire is {type(wrong).__name__}; expected seconds"):
                call()
    with pytest.raises(ValueError, match="not a number"):
        cache.set("a", b"1", float("nan"))
    assert "a" not in cache


def test_what_is_over_is_gone(cache):
    cache.set_many({"short": b"1", "touched": b"2", "shortened": b"3", "cleared of its end": b"4"}, expire=LONG)
    cache.set("short", b"1", expire=0.0001)
    assert cache.touch("touched", timedelta(days=1)) and cache.touch("shortened", 0.001)
    assert cache.touch("cleared of its end", None) and not cache.touch("none", 60)
    until_gone(cache, "short")
    until_gone(cache, "shortened")
    assert "short" not in cache and cache.get_many(["short", "shortened"]) == [None, None]
    assert not cache.touch("short", 60) and cache.pop("short", None) is None
    assert cache.time_left("touched") > LONG and cache.time_left("cleared of its end") is None
    assert cache.touch("touched", 0) and "touched" not in cache
    assert dict(cache.items()) == {b"cleared of its end": b"4"}


def test_ends_outlive_the_process():
    code = """
        import firndex
        cache = firndex.Cache("a.firn", 1 << 20)
        cache.set("long", b"1", expire=3600)
        cache.set("short", b"2", expire=0.001)
        cache["for ever"] = b"3"
    """
    run(code)
    with Cache("a.firn") as cache:
        until_gone(cache, "short")
        assert LONG - 600 < cache.time_left("long") <= LONG and cache["for ever"] == b"3"
        assert cache.time_left("for ever") is None


def test_the_file_has_its_bound_and_the_cache_what_fits():
    capacity = 1 << 20
    with Cache("a.firn", capacity) as cache:
        for number in range(20_000):
            cache[str(number)] = str(number) * 100
            if number % 10 == 0:
                cache.get("0")
        figures = cache.stats()
        assert os.path.getsize("a.firn") <= capacity * 1.02
        assert figures["pool_bytes"] <= capacity * 1.02 and figures["capacity_bytes"] == capacity
        assert figures["evictions"] > 10_000 and 500 < len(cache) < 5000
        pairs = dict(cache.items())
        assert len(pairs) == len(cache) and all(value == key * 100 for key, value in pairs.items())
        assert cache["0"] == b"0" * 100 and cache.check().is_sound


def test_the_capacity_changes_at_an_opening():
    with Cache("a.firn", 4 << 20) as cache:
        cache.set_many((str(number), bytes(1000)) for number in range(3000))
        before = len(cache)
    with Cache("a.firn") as cache:
        assert cache.stats()["capacity_bytes"] == 4 << 20 and len(cache) == before
    with Cache("a.firn", 1 << 20) as cache:
        assert cache.stats()["capacity_bytes"] == 1 << 20 and 0 < len(cache) < before / 2
    assert os.stat("a.firn").st_blocks * 512 < 2 << 20
    with Cache("a.firn", flag="r") as cache:
        assert cache.stats()["capacity_bytes"] == 1 << 20
        with pytest.raises(firndex.ReadOnly):
            cache["a"] = b"1"


def test_openings_that_make_no_sense():
    for path, flag in ((None, "c"), ("a.firn", "n"), ("a.firn", "x")):
        with pytest.raises(firndex.BadOption, match="needs a capacity"):
            Cache(path, flag=flag)
    for flag in ("r", "w"):
        with pytest.raises(firndex.BadOption, match="leave the capacity out"):
            Cache("a.firn", 1 << 20, flag)
    with pytest.raises(firndex.Missing, match="open it with a capacity"):
        Cache("a.firn")
    for capacity in (0, 1000, 1 << 62):
        with pytest.raises(firndex.BadOption, match="capacity_bytes"):
            Cache("a.firn", capacity)
    for capacity in (-1, "1", 1.5):
        with pytest.raises((TypeError, OverflowError)):
            Cache("a.firn", capacity)
    for name in ("helpers", "max_bytes", "engine", "colour"):
        with pytest.raises(TypeError, match=f"no argument {name}; .* durability"):
            Cache("a.firn", 1 << 20, **{name: 1})
    assert not os.path.exists("a.firn")
    Store("store.firn").close()
    with pytest.raises(firndex.Mismatch):
        Cache("store.firn", 1 << 20)
    Cache("a.firn", 1 << 20).close()
    with pytest.raises(firndex.Mismatch):
        Store("a.firn")
    with pytest.raises(firndex.Exists):
        Cache("a.firn", 1 << 20, "x")
    assert firndex.inspect("a.firn")["kind"] == "cache"
    with Cache("a.firn", 1 << 20, durability="commit", wait=0) as cache:
        cache["a"] = b"1"
        cache.commit()
    with Cache("a.firn", 1 << 20, "n") as cache:
        assert len(cache) == 0
        cache.sync()


def test_a_damaged_cache_is_begun_anew_if_that_is_asked_for():
    # There is nothing that it could be restored from.
    with Cache("a.firn", 1 << 20, durability="process") as cache:
        cache["a"] = b"1"
        assert cache.was_reset is None
    os.truncate("a.firn", 10_000)
    with pytest.raises(firndex.Corrupt, match="truncated"):
        Cache("a.firn", 1 << 20)
    with Cache("a.firn", 1 << 20, reset_if_refused=True) as cache:
        assert "a" not in cache and "truncated" in cache.was_reset and "Salvage::" not in cache.was_reset


def test_wrong_types_are_named(cache):
    for wrong in (7, 1.5, None, ["a"], object()):
        name = type(wrong).__name__
        with pytest.raises(TypeError, match=f"a key is {name}; expected bytes"):
            cache[wrong]
        with pytest.raises(TypeError, match=f"a value is {name}; expected bytes"):
            cache["b"] = wrong
        for call in (cache.get, cache.pop, cache.delete, cache.__contains__, cache.__delitem__, cache.time_left):
            with pytest.raises(TypeError):
                call(wrong)
        with pytest.raises(TypeError):
            cache.touch(wrong, 60)
    assert len(cache) == 0


def test_what_is_too_large(cache):
    cache["a"] = b"1"
    with pytest.raises(firndex.TooLarge, match="more than a quarter of the cache") as raised:
        cache["a"] = bytes(1 << 19)
    assert isinstance(raised.value, ValueError) and cache["a"] == b"1"
    with pytest.raises(firndex.TooLarge, match="1 of 3 entries took effect") as raised:
        cache.set_many([("b", b"2"), ("c", bytes(1 << 19)), ("d", b"4")])
    assert (raised.value.done, raised.value.undone) == (1, [1, 2]) and cache.get_many(["b", "d"]) == [b"2", None]
    with pytest.raises(firndex.Limit, match="the key has"):
        cache[bytes(1 << 17)] = b""
    assert cache.get(bytes(1 << 17)) is None
    assert cache.stats()["refused"] >= 2


def test_figures(cache):
    cache.set_many({"a": b"1", "b": b"2"})
    cache["a"], cache.get("b"), cache.get("c"), cache.get_many(["a", "d"])
    figures = cache.stats()
    assert (figures["hits"], figures["misses"], figures["hit_ratio"]) == (3, 2, 0.6)
    assert (figures["insertions"], figures["evictions"], figures["entries"]) == (2, 0, 2)
    assert "a" in cache and len(list(cache.items())) == 2
    assert all(cache.stats()[name] == figures[name] for name in figures if not name.startswith("oldest_"))
    assert cache.check() == (2, 0, [])


def test_the_oldest_entries_have_an_age(cache):
    assert cache.stats()["oldest_put"] == cache.stats()["oldest_kept"] == 0
    cache["a"] = b"1"
    deadline = time.monotonic() + 60
    while not cache.stats()["oldest_put"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert cache.stats()["oldest_put"] < 600 and cache.stats()["oldest_kept"] == 0
    # Room is made, and what is asked for is kept.
    for number in range(5000):
        cache[str(number)] = bytes(1000)
        cache["a"], cache.get(str(max(number - 10, 0)))
    while not cache.stats()["oldest_kept"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert cache.stats()["oldest_kept"] < 600


def test_iterators_show_each_key_once_while_nothing_changes():
    with Cache(capacity=128 << 20) as cache:
        pairs = {f"{number}".encode(): f"{number}".encode() * 2000 for number in range(5000)}
        cache.set_many(pairs)
        assert cache.stats()["entry_bytes"] > 32 << 20 and cache.stats()["evictions"] == 0
        seen = list(cache.items())
        assert len(seen) == len(pairs) and dict(seen) == pairs
        assert sorted(cache) == sorted(pairs)


def test_an_iterator_reads_little_ahead():
    with Cache(capacity=16 << 20) as cache:
        cache.set_many((str(number), b"") for number in range(30_000))
        keys, pairs = iter(cache), cache.items()
        assert next(keys) in cache and next(pairs)[0] in cache
        cache.clear()
        assert len(list(keys)) < 5000 and len(list(pairs)) < 5000


def test_an_iterator_meets_what_is_there_throughout():
    with Cache(capacity=64 << 20) as cache:
        lasting = {f"lasting {number}".encode(): f"{number}".encode() for number in range(5000)}
        cache.set_many(lasting)
        seen = {}
        for turn, (key, value) in enumerate(cache.items()):
            assert key.startswith(b"beside") or value == lasting[key]
            seen[key] = value
            # They are moved, and the index grows.
            if turn % 10 == 0:
                cache[key] = value
                cache.set_many((f"beside {turn} {number}", b"") for number in range(20))
        assert lasting.items() <= seen.items() and cache.stats()["evictions"] == 0


def test_an_iterator_keeps_nobody_from_storing():
    with Cache(capacity=1 << 20) as cache:
        cache.set_many((str(number), bytes(100)) for number in range(3000))
        for turn, key in enumerate(cache):
            cache.set_many((f"{turn} {number}", bytes(5000)) for number in range(5))
        assert turn > 500 and cache.stats()["evictions"] > 1000 and cache.check().is_sound


def test_an_iterator_whose_cache_is_closed_raises():
    cache = Cache("a.firn", 16 << 20)
    cache.set_many((str(number), b"") for number in range(20_000))
    iterators = [iter(cache), cache.items()]
    for iterator in iterators:
        next(iterator)
    cache.close()
    for iterator in iterators:
        with pytest.raises(firndex.Closed, match="closed while this iterator was in use"):
            for _ in iterator:
                pass
        assert list(iterator) == []


CALLS = [
    lambda cache: cache["a"],
    lambda cache: cache.__setitem__("a", b""),
    lambda cache: cache.__delitem__("a"),
    lambda cache: "a" in cache,
    lambda cache: len(cache),
    lambda cache: list(cache),
    lambda cache: cache.items(),
    lambda cache: cache.get("a"),
    lambda cache: cache.set("a", b"", 60),
    lambda cache: cache.touch("a", 60),
    lambda cache: cache.time_left("a"),
    lambda cache: cache.delete("a"),
    lambda cache: cache.pop("a", None),
    lambda cache: cache.clear(),
    lambda cache: cache.get_many(["a"]),
    lambda cache: cache.set_many({"a": b""}),
    lambda cache: cache.delete_many(["a"]),
    lambda cache: cache.get_or_compute("a", lambda: b""),
    lambda cache: cache.sync(),
    lambda cache: cache.check(),
    lambda cache: cache.stats(),
]


def test_closed_handles():
    cache = Cache("a.firn", 1 << 20)
    assert repr(cache) == '<firndex.Cache "a.firn", 0 entries>' and cache.path == pathlib.Path("a.firn")
    cache.close()
    cache.close()
    assert cache.closed and repr(cache) == '<firndex.Cache "a.firn", closed>'
    for call in [*CALLS, lambda cache: cache.was_reset, lambda cache: cache.role, lambda cache: cache.commit()]:
        with pytest.raises(firndex.Closed, match="closed"):
            call(cache)


def test_a_forked_child_is_told_to_open_the_cache_again():
    with Cache("a.firn", 1 << 20) as cache:
        cache["a"] = b"1"
        begun = iter(cache)
        calls = [*CALLS, lambda _: next(begun)]
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                for call in calls:
                    try:
                        call(cache)
                    except firndex.Forked as error:
                        refused += "open the pool again in the child" in str(error)
                refused += "inherited by a forked process" in repr(cache)
                cache.close()
                with Cache("a.firn") as own:
                    refused += own.role == "guest" and own["a"] == b"1"
            finally:
                os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls) + 2
        assert cache["a"] == b"1" and next(begun) == b"a" and cache.check().is_sound


def test_a_handle_is_not_picklable():
    with Cache("a.firn", 1 << 20) as cache, Cache(capacity=1 << 20) as in_memory:
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(firndex.NotPicklable, match='"a.firn"'):
                call(cache)
            with pytest.raises(firndex.NotPicklable, match="in memory"):
                call(in_memory)


def test_a_cache_that_lets_nobody_in():
    holder = Cache("a.firn", 1 << 20, guests=False)
    with pytest.raises(firndex.Held, match="share that handle"):
        Cache("a.firn", wait=0)
    told = run("""
        import firndex
        for options in ({"wait": 0}, {"wait": 0.01}, {"guests": False}):
            try:
                firndex.Cache("a.firn", **options)
            except firndex.Held as error:
                print(error)
    """)
    assert told.count("in use by another process") == told.count("the argument `guests`") == 3
    code = 'import firndex; print("begun", flush=True); print(firndex.Cache("a.firn", wait=60)["a"])'
    waiting = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout.readline() == "begun\n"
    holder["a"] = b"1"
    holder.close()
    assert waiting.communicate()[0] == "b'1'\n" and waiting.returncode == 0


WRITER = """
    import sys, firndex
    cache = firndex.Cache("a.firn", 64 << 20, durability=sys.argv[1])
    for number in range(int(cache.get("next", b"0")), 10**9):
        # Before the next number is stored: another process would go on behind it.
        if number % 7 == 0:
            cache.pop(str(number - 7), None)
        if number % 3 == 0:
            cache.set_many({str(number): bytes(number % 500), "next": str(number + 1)})
        else:
            cache.set(str(number), bytes(number % 500), expire=3600)
            cache["next"] = str(number + 1)
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
"""


@pytest.mark.parametrize("durability", ["process", "periodic", "commit"])
def test_everything_that_returned_survives_sigkill(durability):
    done = -1
    for turn in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), durability], stdout=subprocess.PIPE, text=True
        )
        for _ in range(100 + 50 * turn):
            done = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        reported = writer.stdout.read().splitlines(keepends=True)
        done = max([done, *(int(line) for line in reported if line.endswith("\n"))])
        assert writer.wait() == -signal.SIGKILL
        with Cache("a.firn") as cache:
            assert cache.check().is_sound and int(cache["next"]) > done
            for number in range(done + 1):
                if number % 7:
                    assert cache[str(number)] == bytes(number % 500), number
                    left = cache.time_left(str(number))
                    assert left is None if number % 3 == 0 else LONG - 1800 < left <= LONG
                elif number + 7 <= done:
                    assert str(number) not in cache


def test_a_cache_that_nobody_closed_is_closed_at_the_end_of_the_process():
    run("""
        import ctypes, firndex
        cache = firndex.Cache("a.firn", 1 << 20)
        cache["a"] = b"1"
        # Nobody drops it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(cache))
    """)
    assert firndex.inspect("a.firn")["clean"]
    with Cache("a.firn") as cache:
        assert cache["a"] == b"1"
