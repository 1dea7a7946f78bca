"""Results of functions are kept: for the same arguments, function and version, in later processes too."""

import functools
import json
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

import firndex
from firndex import Cache, Store, cached
from test_threads import together


def counted(store, **options):
    calls = []

    @cached(store, **options)
    def function(*args, **kwargs):
        calls.append((args, kwargs))
        return [args, kwargs]

    return function, calls


def test_each_argument_is_computed_once():
    with Store() as store:
        function, calls = counted(store)
        arguments = [(), (1,), (1.0,), (True,), ("1",), (b"1",), (None,), ((1,),), ([1],), ({1},), ({"a": 1},), (1, 1)]
        for _ in range(2):
            for args in arguments:
                assert function(*args) == [args, {}]
        assert len(calls) == len(arguments) == len(store)
        assert function(a=1, b=2) == function(b=2, a=1) and len(calls) == len(arguments) + 1
        assert function.cache_info() == (len(arguments) + 1, len(arguments) + 1)


def test_long_arguments_have_keys_of_bounded_length():
    with Store() as store:
        function, calls = counted(store)
        for text in ("x" * 100_000, "x" * 100_001, "x" * 100_000, "\ud800" * 1000):
            function(text)
        assert len(calls) == 3 and max(map(len, store)) < 300


def test_equal_sets_and_dicts_are_one_argument():
    with Store() as store:
        function, calls = counted(store)
        function({"b", "a"}, {1: 2, 3: 4})
        function({"a", "b"}, {3: 4, 1: 2})
        assert len(calls) == 1


def test_versions_and_names_are_apart():
    with Store() as store:
        one, of_one = counted(store, version=1)
        two, of_two = counted(store, version="2")

        @cached(store)
        def other(argument):
            return "other"

        one(1), two(1), other(1)
        assert len(of_one) == len(of_two) == 1 and other(1) == "other" and len(store) == 3
        one.cache_clear()
        assert [bytes(key).split(b"\0")[0].endswith(b"other") for key in store] == [True]
        one(1)
        assert len(of_one) == 2


def test_arguments_without_a_lasting_text_need_a_key():
    with Store() as store:
        function, _ = counted(store)
        for wrong in (object(), (1, object()), functools.partial(int)):
            with pytest.raises(TypeError, match="pass `key`"):
                function(wrong)
        by_type, calls = counted(store, key=lambda argument: type(argument).__name__)
        by_type(object())
        assert len(store) == 1 and len(calls) == 1


def test_a_call_that_raises_stores_nothing_and_none_is_a_result():
    with Store() as store:
        @cached(store)
        def function(argument):
            calls.append(argument)
            if argument < 0:
                raise ValueError("negative")

        calls = []
        for _ in range(2):
            assert function(1) is None
            with pytest.raises(ValueError, match="negative"):
                function(-1)
        assert calls == [1, -1, -1]


def test_another_codec():
    with Store() as store:
        function, calls = counted(store, dumps=json.dumps, loads=json.loads)
        function(1)
        assert function(1) == [[1], {}] and list(store.values()) == [b"[[1], {}]"] and len(calls) == 1


def test_results_survive_the_process():
    code = """if True:
        import firndex

        @firndex.cached("results.firn")
        def answer(question):
            print("computing")
            return question * 2

        print(answer(21))
    """
    told = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)]
    assert told == ["computing\n42\n", "42\n"]


def test_a_path_is_opened_at_the_first_call():
    function, _ = counted("none/at/all.firn")
    with pytest.raises(firndex.Error, match="no directory"):
        function(1)


def test_processes_share_the_results_of_a_path():
    function, calls = counted("results.firn")
    function(1)
    child = os.fork()
    if child == 0:
        done = 1
        try:
            function(1)
            function(2)
            done = len(calls) - 2
        finally:
            os._exit(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    function(2)
    assert len(calls) == 1


@pytest.mark.parametrize("bound", [{"expire": 3600}, {"expire": timedelta(hours=1)}, {"capacity": 1 << 20}])
def test_results_in_a_cache_are_computed_once(bound):
    function, calls = counted("results.firn", **bound)
    for _ in range(2):
        assert function(1, a=2) == [(1,), {"a": 2}] and function(None) == [(None,), {}]
    assert len(calls) == 2 and function.cache_info() == (2, 2)
    assert firndex.inspect("results.firn")["kind"] == "cache"
    # Functions of one process share a file.
    other, of_other = counted("results.firn", version=2, **bound)
    other(1, a=2)
    assert len(of_other) == 1
    function.cache_clear()
    function(None), other(1, a=2)
    assert len(calls) == 3 and len(of_other) == 2


def test_results_in_a_cache_end():
    with Cache(capacity=1 << 20) as cache:
        function, calls = counted(cache, expire=0.001)
        deadline = time.monotonic() + 60
        while len(calls) < 3:
            assert function(1) == [(1,), {}] and time.monotonic() < deadline
        lasting, calls = counted(cache, version=2)
        assert lasting(1) == lasting(1) and len(calls) == 1 and cache.time_left(lasting.cache_key(1)) is None
        timed, _ = counted(cache, version=3, expire=3600)
        timed(1)
        assert 1800 < cache.time_left(timed.cache_key(1)) <= 3600


def test_results_in_a_cache_have_a_bound():
    function, calls = counted("results.firn", key=lambda number: number, capacity=1 << 20)
    for number in range(3000):
        function(number)
    assert function.cache_info() == (0, 3000) and os.path.getsize("results.firn") <= (1 << 20) * 1.02
    large, calls = counted(Cache(capacity=1 << 20))
    argument = "x" * (1 << 19)
    assert large(argument) == large(argument) and len(calls) == 2


def test_one_thread_computes_a_result_and_failures_are_not_kept():
    calls = []

    @cached("results.firn", capacity=1 << 20)
    def function(argument):
        calls.append(threading.current_thread())
        if argument < 0:
            raise ValueError("negative")
        return argument * 2

    together(*[lambda: [function(argument) for argument in range(200)]] * 4)
    assert len(calls) == 200 and function.cache_info() == (600, 200)
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            function(-1)
    assert len(calls) == 202


def test_a_function_in_a_cache_may_call_itself():
    @cached("results.firn", capacity=1 << 20)
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    assert fibonacci(50) == 12586269025 and fibonacci.cache_info() == (48, 51)


def test_results_in_a_cache_survive_the_process_and_are_shared():
    code = """if True:
        import firndex

        @firndex.cached("results.firn", expire=3600)
        def answer(question):
            print("computing")
            return question * 2

        print(answer(21))
        answer.cache_clear()
        print(answer(21))
    """

    def told():
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout

    assert [told(), told()] == ["computing\n42\ncomputing\n42\n", "42\ncomputing\n42\n"]
    with Cache("results.firn") as cache:
        assert told() == "42\ncomputing\n42\n" and cache.stats()["capacity_bytes"] == 64 << 20


@pytest.mark.parametrize("bound", [{}, {"expire": 3600}])
def test_a_forked_worker_goes_on_after_its_parent_was_killed(bound):
    code = f"""if True:
        import os, signal, sys, firndex

        computed = []

        @firndex.cached("results.firn", **{bound})
        def answer(question):
            computed.append(question)
            return question * 2

        answer(1)
        if os.fork() == 0:
            answer(1), answer(2)
            print(*computed, flush=True)
            sys.stdin.readline()
            # Its owner has ended.
            answer(2), answer(3), answer(1)
            print(*computed, flush=True)
            os._exit(0)
        signal.pause()
    """
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)
    assert parent.stdout.readline() == "1 2\n"
    parent.kill()
    assert parent.wait() == -9
    assert parent.communicate("\n")[0] == "1 2 3\n"


def test_bounds_are_for_caches():
    with Store() as store, Cache(capacity=1 << 20) as cache:
        for bound in ({"expire": 1}, {"capacity": 1 << 20}):
            with pytest.raises(TypeError, match="pass a Cache"):
                cached(store, **bound)
        with pytest.raises(TypeError, match="has one; leave it out"):
            cached(cache, capacity=1 << 20)
    function, _ = counted("results.firn", expire="soon")
    with pytest.raises(TypeError, match="expire is str"):
        function(1)
