"""Whatever returned survives SIGKILL; what is forked or spawned opens the pool by its path."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap

import pytest

import firndex
from firndex import Store

WRITER = """
    import sys, firndex
    store = firndex.Store("a.firn", durability=sys.argv[1])
    # The last one may have been cut off.
    first = max(int(store.get("next", b"0")) - 1, 0)
    for number in range(first, 10**9):
        if number % 3 == 0:
            store.put_many({f"{number}": bytes(number % 500), "next": str(number + 1)})
        else:
            store[f"{number}"] = bytes(number % 500)
            store["next"] = str(number + 1)
        if number % 7 == 0:
            store.pop(f"{number - 7}", None)
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
"""


@pytest.mark.parametrize("durability", ["process", "periodic", "commit"])
def test_everything_that_returned_survives_sigkill(durability):
    done = -1
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), durability], stdout=subprocess.PIPE, text=True
        )
        for _ in range(random.randrange(1, 400)):
            done = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        reported = writer.stdout.read().splitlines(keepends=True)
        done = max([done, *(int(line) for line in reported if line.endswith("\n"))])
        assert writer.wait() == -signal.SIGKILL
        with Store("a.firn") as store:
            assert store.check().is_sound
            begun = int(store["next"])
            assert begun >= done + 1
            for number in range(done + 1):
                is_removed = number % 7 == 0 and number + 7 <= done
                if number % 7 == 0 and number + 7 > done:
                    continue
                assert store.get(str(number)) == (None if is_removed else bytes(number % 500)), number


def test_a_pool_that_nobody_closed_is_closed_at_the_end_of_the_process():
    code = """
        import ctypes, firndex
        store = firndex.Store("a.firn")
        store["a"] = b"1"
        iterator = iter(store)
        # Nobody drops it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(store))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
    assert firndex.inspect("a.firn")["clean"]
    with Store("a.firn", "r") as store:
        assert store["a"] == b"1"


def test_a_forked_child_is_told_to_open_the_pool_again():
    store = Store("a.firn")
    store.put_many((str(n), b"") for n in range(5000))
    iterator = iter(store)
    next(iterator)
    calls = [
        lambda: store["1"],
        lambda: store.__setitem__("1", b""),
        lambda: len(store),
        lambda: "1" in store,
        lambda: list(store),
        lambda: store.get_many(["1"]),
        lambda: store.put_many({"1": b""}),
        lambda: store.popitem(),
        lambda: store.modify("1", lambda value: value),
        lambda: store.sync(),
        lambda: store.check(),
        lambda: store.stats(),
        lambda: list(iterator),
    ]
    child = os.fork()
    if child == 0:
        refused = 0
        try:
            for call in calls:
                try:
                    call()
                except firndex.Forked as error:
                    refused += "in the child" in str(error)
            assert "inherited by a forked process" in repr(store)
            store.close()
            refused += 1
        finally:
            os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(calls) + 1
    assert store["1"] == b"" and len(list(iterator)) == 4999
    store.close()
    with Store("a.firn") as store:
        assert len(store) == 5000


def add_one(path):
    with Store(path, wait=60) as store:
        store.modify("count", lambda count: str(int(count or b"0") + 1))
        return os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_take_turns(method, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    with Store("a.firn") as store:
        store["count"] = b"0"
        inherited = store
    with multiprocessing.get_context(method).Pool(2) as pool:
        pool.map(add_one, ["a.firn"] * 6)
    with Store("a.firn") as store:
        assert store["count"] == b"6"
    assert inherited.closed


def test_ctrl_c_ends_a_wait_for_a_pool():
    holder = Store("a.firn")
    code = """
        import signal, firndex
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            print("begun", flush=True)
            firndex.Store("a.firn", wait=600)
        except KeyboardInterrupt:
            print("interrupted")
    """
    waiting = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout.readline() == "begun\n"
    waiting.send_signal(signal.SIGINT)
    assert waiting.communicate()[0] == "interrupted\n"
    holder.close()


def test_ctrl_c_ends_a_batch_between_two_parts():
    code = """
        import os, signal, firndex
        signal.signal(signal.SIGINT, signal.default_int_handler)
        store = firndex.Store()

        def pairs():
            for number in range(100_000):
                yield str(number), b""
            signal.pthread_kill(__import__("threading").main_thread().ident, signal.SIGINT)

        try:
            store.put_many(pairs())
        except KeyboardInterrupt:
            print(len(store) < 100_000)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
