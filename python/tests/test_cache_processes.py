"""Processes share a cache: the first owns it, the others ask that one, and one of them goes on after it."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

import firndex
from firndex import Cache
from test_processes import Owner

#: Long enough that no test is still running when it is over.
LONG = 3600

OWNED = 'firndex.Cache("a.firn", 4 << 20)'


class User:
    """A process with the cache open, which does what it is told. `cache` is its handle."""

    CODE = """if True:
        import sys, firndex
        cache = firndex.Cache("a.firn", 4 << 20)
        print(cache.role, flush=True)
        for line in sys.stdin:
            print(repr(eval(line)), flush=True)
    """

    def __init__(self):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", self.CODE], stdin=pipe, stdout=pipe, text=True)
        self.role_at_first = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.kill()

    def does(self, expression):
        self.process.stdin.write(f"{expression}\n")
        self.process.stdin.flush()
        return eval(self.process.stdout.readline())

    def kill(self):
        self.process.kill()
        self.process.communicate()


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_guest_has_what_an_owner_has_but_a_check():
    with Owner(OWNED), Cache("a.firn") as cache:
        assert cache.role == "guest"
        cache["a"] = b"1"
        cache.set("b", "größer")
        assert cache["a"] == b"1" and cache.get("b") == "größer".encode() and "a" in cache and "z" not in cache
        assert cache.get("z") is None and cache.get("z", 7) == 7 and len(cache) == 2
        assert repr(cache) == '<firndex.Cache "a.firn", 2 entries>'
        for missing in (lambda: cache["z"], lambda: cache.__delitem__("z"), lambda: cache.pop("z"),
                        lambda: cache.time_left("z")):
            with pytest.raises(KeyError):
                missing()
        assert cache.pop("a") == b"1" and cache.pop("a", None) is None
        assert cache.delete("b") and not cache.delete("b")
        assert cache.get_or_compute("c", lambda: b"3") == b"3" == cache.get_or_compute("c", lambda: b"4")
        assert cache.get_or_compute("d", lambda: cache["c"], expire=LONG) == b"3" and cache.time_left("d") <= LONG
        with pytest.raises(firndex.Error, match="would wait for itself"):
            cache.get_or_compute("e", lambda: cache.get_or_compute("e", lambda: b""))
        large = bytes(3 << 20)
        assert cache.get_or_compute("large", lambda: large) == large and "large" not in cache
        with pytest.raises(firndex.TooLarge, match="more than a quarter"):
            cache["large"] = large
        cache.sync()
        with pytest.raises(firndex.ForOwner, match="`check`"):
            cache.check()
        figures = cache.stats()
        assert figures["capacity_bytes"] == 4 << 20 and figures["hits"] > 0 and figures["entries"] == 2
        assert figures["oldest_put"] < 600
        with Cache("a.firn", flag="r") as reader:
            assert reader["c"] == b"3" and reader.role == "guest"
            with pytest.raises(firndex.ReadOnly):
                reader["c"] = b"4"
        with pytest.raises(firndex.Held):
            Cache("a.firn", 1 << 20, "n")
        with pytest.raises(firndex.Mismatch):
            firndex.Store("a.firn")
        cache.clear()
        assert len(cache) == 0 and list(cache) == []


def test_of_processes_that_add_one_does_and_steps_that_many_make_all_count():
    with User() as one, User() as other, Cache("a.firn", 4 << 20) as cache:
        users = [one, other]
        steps = """[
            (cache.add(f"lock {n}", b"mine", expire=3600),
             next(True for _ in iter(int, 1)
                  if cache.replace_if("sum", found := cache["sum"], str(int(found) + 1).encode())))
            for n in range(300)]"""
        cache.set("sum", b"0", expire=LONG)
        assert not cache.replace_if("sum", b"1", b"2") and not cache.replace_if("none", b"", b"")
        results = [None, None]

        def run(number):
            results[number] = users[number].does(" ".join(steps.split()))

        threads = [threading.Thread(target=run, args=[number]) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert cache["sum"] == b"600" and 0 < cache.time_left("sum") <= LONG
        for (first, _), (second, _) in zip(*results):
            assert first != second
        assert not cache.add("lock 0", b"theirs") and cache.add("at once", b"", expire=0) and "at once" not in cache


def test_batches_of_a_guest():
    with Owner(OWNED), Cache("a.firn") as cache:
        # More than a part of a batch, and more than goes to the owner at once.
        pairs = {str(number): bytes(number % 100) for number in range(10_000)}
        cache.set_many(pairs)
        assert cache.get_many([*pairs, "none"]) == [*pairs.values(), None]
        cache.set_many({"timed": b"1", "timed too": b"2"}, expire=LONG)
        assert cache.time_left("1") is None and LONG - 600 < cache.time_left("timed too") <= LONG
        cache.set_many({"timed": b"1", "10": b"2"}, expire=0)
        assert "timed" not in cache and "10" not in cache
        assert cache.delete_many([*list(pairs)[:9000], "none"]) == 8999 and len(cache) == 1001
        assert cache.get_many(["8999", "9000"]) == [None, bytes(9000 % 100)]
        large = bytes(3 << 20)
        for expire in (None, LONG):
            with pytest.raises(firndex.TooLarge, match="1 of 3 entries took effect") as raised:
                cache.set_many([("b", b"2"), ("c", large), ("d", b"4")], expire)
            assert (raised.value.done, raised.value.undone) == (1, [1, 2])
            assert cache.get_many(["b", "d"]) == [b"2", None]
        several = [(str(number), bytes(500)) for number in range(9000)]
        with pytest.raises(firndex.TooLarge, match="8500 of 9000 entries took effect") as raised:
            cache.set_many([*several[:8500], ("c", large), *several[8501:]])
        assert raised.value.undone == list(range(8500, 9000))


def test_a_guest_walks_over_the_cache_step_by_step():
    with Owner('firndex.Cache("a.firn", 64 << 20)'), Cache("a.firn") as cache:
        pairs = {str(number).encode(): bytes(500) for number in range(20_000)}
        cache.set_many(pairs)
        assert dict(cache.items()) == pairs and sorted(cache) == sorted(pairs)
        begun = iter(cache)
        assert next(begun) in pairs
        cache.clear()
        assert len(list(begun)) < 10_000
        cache["a"] = b"1"
        begun = cache.items()
        cache.close()
        with pytest.raises(firndex.Closed):
            next(begun), next(begun)


def test_an_iterator_is_cut_off_when_the_owner_ends():
    with Owner('firndex.Cache("a.firn", 64 << 20)') as owner, Cache("a.firn") as cache:
        cache.set_many((str(number), bytes(500)) for number in range(20_000))
        begun = iter(cache)
        next(begun)
        owner.kill()
        with pytest.raises(firndex.Interrupted):
            list(begun)
        assert sum(1 for _ in cache) == 20_000 and cache.role == "owner"


def test_ends_are_the_same_in_all_processes():
    with User() as owner, User() as user, Cache("a.firn") as cache:
        assert (owner.role_at_first, user.role_at_first, cache.role) == ("owner", "guest", "guest")
        cache.set("long", b"1", expire=timedelta(seconds=LONG))
        cache["for ever"] = b"2"
        for other in (owner, user):
            assert LONG - 600 < other.does("cache.time_left('long')") <= LONG
            assert other.does("cache.time_left('for ever')") is None
        assert user.does("cache.touch('long', 2 * 3600)") and cache.time_left("long") > LONG
        cache.set("short", b"3", expire=0.001)
        until(lambda: user.does("cache.get('short')") is None)
        # What is over is so everywhere.
        assert "short" not in cache and owner.does("'short' not in cache")
        assert user.does("cache.set('over', b'4', 0)") is None and "over" not in cache
        assert cache.touch("for ever", 0) and not owner.does("'for ever' in cache")
        owner.kill()
        assert cache["long"] == b"1" and LONG < cache.time_left("long") <= 2 * LONG
        cache.set("short", b"3", expire=0.001)
        until(lambda: user.does("cache.get('short')") is None)
        assert "short" not in cache


def test_the_last_process_goes_on_when_one_owner_after_another_was_killed():
    with contextlib.ExitStack() as stack:
        users = [stack.enter_context(User()) for _ in range(4)]
        assert [user.role_at_first for user in users] == ["owner", "guest", "guest", "guest"]
        put = 0
        while users:
            for user in users:
                user.does(f"cache.set_many((str(number), str(number)) for number in range({put}, {put + 100}))")
                put += 100
            for user in users:
                assert user.does(f"cache.get_many(map(str, range({put})))") == [
                    str(number).encode() for number in range(put)
                ]
            roles = [user.does("cache.role") for user in users]
            assert roles.count("owner") == 1
            # Nobody asks while it ends, so nothing of anybody is cut off.
            users.pop(roles.index("owner")).kill()
    with Cache("a.firn") as cache:
        assert cache.role == "owner" and cache.stats()["capacity_bytes"] == 4 << 20
        assert cache.get_many(map(str, range(put))) == [str(number).encode() for number in range(put)]
        assert len(cache) == put == 1000 and cache.check().is_sound


def test_when_the_owner_is_killed_amid_changes_what_returned_is_there():
    with Owner('firndex.Cache("a.firn", 1 << 30)') as owner, Cache("a.firn") as cache:
        killing = threading.Thread(target=owner.kill)
        put = lost = 0
        while put < 500 or killing.is_alive() or cache.role == "guest":
            if put == 100 and not killing.ident:
                killing.start()
            try:
                cache[str(put)] = str(put)
                put += 1
                cache.set_many({f"many {number}": b"" for number in range(5)})
            except firndex.Interrupted as error:
                assert "may have been done or not" in str(error)
                lost += 1
        killing.join()
        assert cache.role == "owner" and lost <= 1
        assert cache.get_many(map(str, range(put))) == [str(number).encode() for number in range(put)]
        assert cache.check().is_sound


@pytest.mark.parametrize("expire", [None, LONG])
def test_what_is_computed_is_stored_though_the_owner_ends(expire):
    # Its puts wait for the disk, so it is killed amid some.
    with Owner('firndex.Cache("a.firn", 64 << 20, durability="commit")') as owner, Cache("a.firn") as cache:
        counts, failures = [0] * 4, []

        def ask(number):
            try:
                while cache.role == "guest":
                    key = f"{number} {counts[number]}"
                    assert cache.get_or_compute(key, lambda: key, expire) == key.encode()
                    counts[number] += 1
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: sum(counts) > 100 or failures)
        owner.kill()
        for thread in threads:
            thread.join()
        assert failures == []
        for number, count in enumerate(counts):
            keys = [f"{number} {turn}" for turn in range(count)]
            assert cache.get_many(keys) == [key.encode() for key in keys]


def test_another_handle_of_the_process_is_a_guest():
    with Cache("a.firn", 1 << 20) as cache, Cache("a.firn", 2 << 20) as other:
        assert (cache.role, other.role) == ("owner", "guest")
        other["a"] = b"1"
        assert cache["a"] == b"1" and other.stats()["capacity_bytes"] == 1 << 20
        cache.close()
        other["a"] = b"2"
        assert other["a"] == b"2" and other.role == "owner" and other.stats()["capacity_bytes"] == 1 << 20


def test_options_for_several_processes():
    with Cache(capacity=1 << 20, guests=True) as cache:
        assert cache.role == "owner"
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="patience"):
            Cache("a.firn", 1 << 20, patience=wrong)
    with Owner(OWNED) as owner, Cache("a.firn", never_own=True, patience=0.1) as cache:
        until(lambda: answers(cache))
        owner.kill()
        for call in CALLS:
            with pytest.raises(TimeoutError):
                call(cache)
        assert cache.role == "guest"
        with Owner(OWNED):
            until(lambda: answers(cache))


def answers(cache):
    """Whether the owner does, in so short a time."""
    with contextlib.suppress(firndex.Silent):
        return cache.get("a") is None
    return False


CALLS = [
    lambda cache: cache["a"],
    lambda cache: cache.get("a"),
    lambda cache: "a" in cache,
    lambda cache: cache.time_left("a"),
    lambda cache: cache.get_many(["a"]),
    lambda cache: cache.__setitem__("a", b"2"),
    lambda cache: cache.set("a", b"2", 60),
    lambda cache: cache.set_many({"a": b"2"}),
    lambda cache: cache.touch("a", 60),
    lambda cache: cache.delete_many(["b"]),
    lambda cache: cache.delete("b"),
    lambda cache: cache.pop("a"),
    lambda cache: cache.get_or_compute("a", lambda: b"2"),
    lambda cache: list(cache),
]


def test_a_stopped_owner_keeps_no_other_thread_waiting():
    with Owner(OWNED) as owner, Cache("a.firn") as cache, Cache("a.firn", patience=0.1) as hasty:
        for call in CALLS:
            cache["a"] = b"1"
            owner.send(signal.SIGSTOP)
            with pytest.raises(firndex.Silent, match=f"process {owner.process.pid}"):
                call(hasty)
            # Would a call hold the interpreter, nobody could let the owner go on.
            going_on = threading.Timer(0.05, owner.send, [signal.SIGCONT])
            going_on.start()
            call(cache)
            going_on.join()


TIMES = 200


def work(path, number):
    """One of four workers: each has keys of its own, and some that all store."""
    with Cache(path, 16 << 20) as cache:
        for turn in range(TIMES):
            cache.set(f"{number} {turn}", f"{turn}", expire=LONG if turn % 2 else None)
            assert cache[f"{number} {turn}"] == str(turn).encode()
            assert cache.get_or_compute(f"common {turn}", lambda: f"common {turn}") == f"common {turn}".encode()
        cache.set_many({f"{number} many {turn}": b"" for turn in range(TIMES)})
        assert cache.get_many(f"{number} many {turn}" for turn in range(TIMES)) == [b""] * TIMES
        assert cache.delete_many(f"{number} {turn}" for turn in range(TIMES)) == TIMES


@pytest.mark.parametrize("beside_its_parent", [True, False])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_four_workers_use_one_cache(method, beside_its_parent, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    context = multiprocessing.get_context(method)
    with Cache("a.firn", 16 << 20) if beside_its_parent else contextlib.nullcontext():
        workers = [context.Process(target=work, args=("a.firn", number)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
    with Cache("a.firn") as cache:
        assert len(cache) == 5 * TIMES and cache.check().is_sound
        assert cache.get_many(f"common {turn}" for turn in range(TIMES)) == [
            f"common {turn}".encode() for turn in range(TIMES)
        ]
