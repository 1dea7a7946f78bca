"""Results of functions are kept: for the same arguments, function and version, in later processes too."""

import functools
import json
import os
import subprocess
import sys

import pytest

import firndex
from firndex import Store, cached


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
