"""Whatever returned survives SIGKILL; what is forked or spawned opens the pool by its path."""

import contextlib
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request

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


def add_one(path, guests):
    with Store(path, guests=guests, wait=60) as store:
        store.modify("count", lambda count: str(int(count or b"0") + 1))
        return os.getpid()


@pytest.mark.parametrize("guests", [True, False])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_open_it_for_one_change(method, guests, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    with Store("a.firn") as store:
        store["count"] = b"0"
        inherited = store
    with multiprocessing.get_context(method).Pool(2) as pool:
        pool.starmap(add_one, [("a.firn", guests)] * 6)
    with Store("a.firn") as store:
        assert store["count"] == b"6"
    assert inherited.closed


def test_ctrl_c_ends_a_wait_for_a_pool():
    holder = Store("a.firn", guests=False)
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


TIMES = 300


def work(path, number):
    """One of four workers: each counts, and has keys of its own."""
    with Store(path) as store:
        for turn in range(TIMES):
            store.modify("count", lambda count: str(int(count or b"0") + 1))
            store[f"{number} {turn}"] = f"{turn}"
            assert store[f"{number} {turn}"] == str(turn).encode()
        store.put_many({f"{number} many {turn}": b"" for turn in range(TIMES)})
        assert all(value == b"" for value in store.get_many(f"{number} many {turn}" for turn in range(TIMES)))


@pytest.mark.parametrize("beside_its_parent", [True, False])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_four_workers_use_one_pool(method, beside_its_parent, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    context = multiprocessing.get_context(method)
    with Store("a.firn") if beside_its_parent else contextlib.nullcontext():
        workers = [context.Process(target=work, args=("a.firn", number)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
    with Store("a.firn") as store:
        assert store["count"] == str(4 * TIMES).encode()
        assert len(store) == 1 + 4 * 2 * TIMES and store.check().is_sound


class Owner:
    """A process that owns a pool until it is killed."""

    def __init__(self, opening='firndex.Store("a.firn")'):
        code = f"import firndex; pool = {opening}; print(pool.role, flush=True); input()"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout.readline() == "owner\n"

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.kill()

    def send(self, number):
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            # It runs on until the signal has come to its processor.
            os.waitpid(self.process.pid, os.WUNTRACED)

    def kill(self):
        self.send(signal.SIGKILL)
        self.process.communicate()


def test_a_guest_has_what_an_owner_has_but_a_check():
    with Owner(), Store("a.firn") as store:
        assert (store.role, store.stats()["role"], store.stats()["guests"]) == ("guest", "guest", 1)
        store["a"] = b"1"
        store.put_many({"b": b"2", "c": bytes(1 << 20)})
        assert len(store) == 3 and "a" in store and "z" not in store and store.get("z") is None
        assert store["a"] == b"1" and sorted(store) == [b"a", b"b", b"c"] and dict(store.items())[b"b"] == b"2"
        with store.view("c") as view:
            store["c"] = b"3"
            assert bytes(view) == bytes(1 << 20)
        assert store.setdefault("a") == b"1" and store.pop("a") == b"1" and store.delete_many(["b", "z"]) == 1
        assert store.compare_exchange("c", b"3", b"4") and store.popitem() == (b"c", b"4")
        store["d"] = b"5"
        store.sync()
        store.compact()
        with pytest.raises(firndex.ForOwner, match="`check`"):
            store.check()
        with Store("a.firn", "r") as reader:
            assert reader["d"] == b"5" and reader.role == "guest"
            with pytest.raises(firndex.ReadOnly):
                reader["d"] = b"6"
        with pytest.raises(firndex.Held):
            Store("a.firn", "n")
        store.clear()
        assert not store
        assert repr(store) == "<firndex.Store \"a.firn\", 0 pairs>"


def test_tables_have_guests_too():
    np = pytest.importorskip("numpy")
    with Owner('firndex.Table("a.firn", key="i8", value="f8")'), firndex.Table("a.firn") as table:
        assert table.role == "guest" and table.stats()["role"] == "guest"
        keys = np.arange(100_000)
        table.put_many(keys, keys * 0.5)
        values, found = table.get_many(keys)
        assert found.all() and (values == keys * 0.5).all()
        assert len(table) == len(keys) and table[7] == 3.5 and 7 in table and -1 not in table
        assert table.modify(7, lambda value: value + 1) == 4.5
        assert sorted(table) == list(range(100_000))
        assert table.delete_many(keys[:10]).all() and table.pop(10) == 5
        with pytest.raises(firndex.ForOwner):
            table.check()
        with pytest.raises(firndex.Mismatch):
            firndex.Table("a.firn", key="i8", value="i8")


def test_another_handle_of_the_process_is_a_guest():
    with Store("a.firn") as store, Store("a.firn") as other:
        assert (store.role, other.role, store.stats()["guests"]) == ("owner", "guest", 1)
        other["a"] = b"1"
        assert store["a"] == b"1"
        store.close()
        other["a"] = b"2"
        assert other["a"] == b"2" and other.role == "owner"
    with Store("a.firn") as store:
        assert store["a"] == b"2"


def test_when_the_owner_is_killed_a_guest_goes_on_with_everything_acknowledged():
    for turn in range(3):
        with Owner() as owner, Store("a.firn") as store:
            assert store.role == "guest"
            killing = threading.Timer(0.05 * (turn + 1), owner.kill)
            killing.start()
            put = lost = counted = 0
            begun = int(store.get("count", b"0"))
            while put < 100 or store.role == "guest" or put % 100:
                try:
                    store[f"{turn} {put}"] = b"1"
                    put += 1
                    store.modify("count", lambda count: str(int(count or b"0") + 1))
                    counted += 1
                except firndex.Interrupted as error:
                    assert "may have been done or not" in str(error)
                    lost += 1
            killing.join()
            assert store.role == "owner" and lost <= 1
            assert all(value == b"1" for value in store.get_many(f"{turn} {number}" for number in range(put)))
            assert begun + counted <= int(store["count"]) <= begun + counted + lost
            assert store.check().is_sound
        with Store("a.firn") as store:
            assert store.check().is_sound and store.role == "owner"


def test_a_forked_child_opens_the_pool_beside_its_parent_and_outlives_it():
    code = """
        import os, firndex
        store = firndex.Store("a.firn")
        store["parent"] = b"1"
        child = os.fork()
        if child:
            os.read(0, 1)
        with firndex.Store("a.firn") as own:
            print(own.role, own["parent"], flush=True)
            try:
                store["parent"]
            except firndex.Forked as error:
                assert str(error).endswith("in the child")
            os.read(0, 1)
            own["child"] = b"2"
            print(own.role, flush=True)
        os._exit(0)
    """
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdin=pipe, stdout=pipe, text=True)
    assert parent.stdout.readline() == "guest b'1'\n"
    parent.send_signal(signal.SIGKILL)
    assert parent.wait() == -signal.SIGKILL
    assert parent.communicate("\n")[0] == "owner\n"
    with Store("a.firn") as store:
        assert store["parent"] == b"1" and store["child"] == b"2" and store.check().is_sound


def test_a_stopped_owner_is_told_and_keeps_no_other_thread_waiting():
    with Owner() as owner, Store("a.firn", patience=1) as store:
        store["a"] = b"1"
        owner.send(signal.SIGSTOP)
        turns, is_over = 0, threading.Event()

        def count():
            nonlocal turns
            while not is_over.wait(0.001):
                turns += 1

        counting = threading.Thread(target=count)
        counting.start()
        # Look-ups may be answered without the owner, from what it shows.
        for look in (lambda: store["a"] == b"1", lambda: "a" in store):
            with contextlib.suppress(firndex.Silent):
                assert look()
        calls = [lambda: store.__setitem__("b", b"2"), lambda: store.pop("a"), lambda: list(store)]
        for call in calls:
            before = turns
            with pytest.raises(TimeoutError, match="the argument `patience`") as raised:
                call()
            assert isinstance(raised.value, firndex.Silent) and f"process {owner.process.pid}" in str(raised.value)
            assert turns - before > 50
        is_over.set()
        counting.join()
        owner.send(signal.SIGCONT)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(firndex.Silent):
                assert store["a"] == b"1"
                break


def test_a_guest_that_never_owns_waits_for_another_owner():
    with Owner() as owner, Store("a.firn", never_own=True, patience=0.1) as store:
        store["a"] = b"1"
        owner.kill()
        # A look-up may still see what the owner has shown.
        with pytest.raises(firndex.Silent):
            store["a"] = b"2"
        assert store.role == "guest"
        with Owner():
            assert store["a"] == b"1"


def test_options_for_several_processes():
    for path, flag, guests in ((None, "c", True), ("a.firn", "c", False), ("a.firn", "r", True)):
        with Store(path, flag, guests=guests) as store:
            assert store.role == "owner" and store.stats()["guests"] == 0
    with pytest.raises(firndex.BadOption, match="patience"):
        Store("a.firn", patience=0)
    with pytest.raises(ValueError, match="patience"):
        Store("a.firn", patience=-1)


def test_where_no_socket_can_be_nobody_is_let_in():
    with Store("a.firn"):
        (socket,) = pathlib.Path().glob(".firndex-*")
    assert not socket.exists()
    socket.mkdir()
    with pytest.raises(firndex.SystemFailure, match="meet guests"):
        Store("a.firn", guests=True)
    with Store("a.firn") as store:
        store["a"] = b"1"
    socket.rmdir()
    with Store("a.firn") as store, Store("a.firn") as guest:
        assert guest["a"] == b"1" and store.role == "owner"


def test_the_example_of_workers():
    example = pathlib.Path(__file__).parents[1] / "examples/workers.py"
    server = subprocess.Popen([sys.executable, str(example), "0"], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()

        def visit():
            with urllib.request.urlopen(f"{address}ada", timeout=60) as answer:
                return answer.read().decode().split()

        for number in range(1, 41):
            _, count, role, process = visit()
            assert count == str(number)
            if role == "owner":
                # It has answered, so what it has counted counts.
                os.kill(int(process), signal.SIGKILL)
    finally:
        server.terminate()
        server.wait()
    with Store("visits.firn") as store:
        assert store["ada"] == b"40" and store.check().is_sound
