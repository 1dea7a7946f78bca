"""Threads share a cache; one of them computes what several need."""

import threading

import pytest

import firndex
from firndex import Cache
from test_threads import together


@pytest.fixture
def cache():
    with Cache(capacity=1 << 20) as cache:
        yield cache


class Computing:
    """A computation that waits amid itself until it is told to go on."""

    def __init__(self, cache, outcome, **options):
        self.cache, self.outcome, self.options = cache, outcome, options
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.result = None
        self.thread = threading.Thread(target=self._run)

    def __enter__(self):
        self.thread.start()
        assert self.begun.wait(60)
        return self

    def __exit__(self, *raised):
        self.end()

    def end(self):
        self.may_end.set()
        self.thread.join()

    def _run(self):
        try:
            self.result = self.cache.get_or_compute("a", self._compute, **self.options)
        except Exception as error:
            self.result = error

    def _compute(self):
        self.begun.set()
        assert self.may_end.wait(60)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.mark.parametrize("expire", [None, 3600])
def test_one_thread_computes_what_all_get(cache, expire):
    calls, got = [], []

    def compute():
        calls.append(threading.current_thread())
        return f"value {len(calls)}"

    def ask():
        for number in range(200):
            got.append((number, cache.get_or_compute(str(number), compute, expire)))

    together(*[ask] * 4)
    assert len(calls) == len(cache) == 200 and len(got) == 800 and len(set(got)) == 200
    assert (cache.time_left("7") is None) == (expire is None)


def test_those_who_wait_let_python_go_on(cache):
    with Computing(cache, b"1", expire=3600) as computing:
        got = []
        # Would they hold the interpreter, nobody could let the computation end.
        waiting = [
            threading.Thread(target=lambda: got.append(cache.get_or_compute("a", lambda: b"2"))) for _ in range(3)
        ]
        for thread in waiting:
            thread.start()
        assert cache.get_or_compute("b", lambda: b"3") == b"3" and "a" not in cache
        computing.end()
        for thread in waiting:
            thread.join()
        assert computing.result == b"1" and got == [b"1"] * 3


def test_what_is_raised_goes_to_its_caller_and_is_not_kept(cache):
    failure = ZeroDivisionError("amid it")
    with Computing(cache, failure) as computing:
        got = []
        waiting = threading.Thread(target=lambda: got.append(cache.get_or_compute("a", lambda: b"2")))
        waiting.start()
        computing.end()
        waiting.join()
        assert computing.result is failure and got == [b"2"] and cache["a"] == b"2"

    def fail():
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            cache.get_or_compute("b", fail)
    assert "b" not in cache and cache.get_or_compute("b", lambda: b"3") == b"3"


def test_what_is_computed(cache):
    assert cache.get_or_compute("text", lambda: "größer") == "größer".encode() == cache["text"]
    with pytest.raises(TypeError, match="a value is int"):
        cache.get_or_compute("wrong", lambda: 7)
    with pytest.raises(TypeError):
        cache.get_or_compute("wrong", None)
    assert "wrong" not in cache
    large = bytes(1 << 19)
    for expire in (None, 60):
        assert cache.get_or_compute("large", lambda: large, expire) == large and "large" not in cache
    for _ in range(2):
        assert cache.get_or_compute("over", lambda: b"1", expire=0) == b"1" and "over" not in cache


def test_a_computation_may_use_the_cache_but_not_wait_for_itself(cache):
    def outer():
        cache["beside"] = b"1"
        return cache.get_or_compute("inner", lambda: b"2") + b"3"

    assert cache.get_or_compute("outer", outer) == b"23" and cache["inner"] == b"2"
    with pytest.raises(firndex.Error, match="would wait for itself"):
        cache.get_or_compute("a", lambda: cache.get_or_compute("b", lambda: cache.get_or_compute("a", lambda: b"1")))
    assert "a" not in cache and "b" not in cache

    def stores():
        cache["c"] = b"stored"
        return cache.get_or_compute("c", lambda: b"computed")

    assert cache.get_or_compute("c", stores) == b"stored"
    with Cache(capacity=1 << 20) as other:
        assert cache.get_or_compute("d", lambda: other.get_or_compute("d", lambda: b"4")) == b"4"


def test_closing_amid_a_computation_is_refused(cache):
    with Computing(cache, b"1") as computing:
        with pytest.raises(firndex.Error, match="get_or_compute"):
            cache.close()
        computing.end()
        assert computing.result == b"1" and not cache.closed


def test_readers_writers_and_iterators_at_once():
    with Cache("a.firn", 1 << 20) as cache:
        def write():
            for number in range(5000):
                key = f"{threading.get_ident()} {number}"
                cache.set(key, key * 10, expire=3600 if number % 2 else None)

        def read():
            for number in range(5000):
                value = cache.get_or_compute(f"read {number % 300}", lambda: str(number % 300))
                assert value == str(number % 300).encode()

        def iterate():
            for _ in range(5):
                for key, value in cache.items():
                    assert value == (key[5:] if key.startswith(b"read ") else key * 10)

        together(write, write, read, iterate)
        assert cache.check().is_sound and cache.stats()["evictions"] > 0


def test_pop_gives_each_entry_to_one_thread(cache):
    cache.set_many((str(number), str(number)) for number in range(1000))
    popped = []

    def pop():
        for number in range(1000):
            value = cache.pop(str(number), None)
            if value is not None:
                popped.append(value)

    together(*[pop] * 4)
    assert len(popped) == len(set(popped)) == 1000 and len(cache) == 0


def test_closing_waits_for_calls():
    for _ in range(10):
        cache = Cache("a.firn", 1 << 20)

        def use():
            try:
                while True:
                    cache.set_many((str(number), bytes(1000)) for number in range(100))
                    for _ in cache.items():
                        pass
            except firndex.Closed:
                pass

        together(use, use, cache.close)
    with Cache("a.firn") as cache:
        assert cache.check().is_sound
