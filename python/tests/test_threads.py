"""Threads share a handle; calls that may wait let go of the interpreter."""

import threading

import firndex
from firndex import Store


def together(*calls):
    """Runs the calls in threads that begin at the same time; raises what they raise."""
    barrier, raised = threading.Barrier(len(calls)), []

    def run(call):
        barrier.wait()
        try:
            call()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_modify_loses_no_change_of_any_thread():
    with Store() as store:
        def count():
            for _ in range(2000):
                store.modify("count", lambda count: str(int(count or b"0") + 1))

        together(*[count] * 4)
        assert store["count"] == b"8000"


def test_compare_exchange_has_one_winner():
    with Store() as store:
        won = []

        def take():
            for number in range(500):
                if store.compare_exchange(str(number), None, threading.current_thread().name):
                    won.append((str(number).encode(), threading.current_thread().name.encode()))

        together(*[take] * 4)
        assert sorted(won) == sorted(store.items()) and len(won) == 500


def test_pop_gives_each_value_to_one_thread():
    with Store() as store:
        store.put_many((str(n), str(n)) for n in range(3000))
        popped = []

        def pop():
            for number in range(3000):
                value = store.pop(str(number), None)
                if value is not None:
                    popped.append(value)

        together(*[pop] * 4)
        assert len(popped) == 3000 and len(store) == 0


def test_popitem_gives_each_pair_to_one_thread():
    with Store() as store:
        store.put_many((str(n), str(n)) for n in range(5000))
        taken = []

        def take():
            while True:
                try:
                    taken.append(store.popitem())
                except KeyError:
                    return

        together(*[take] * 4)
        assert sorted(taken) == sorted((str(n).encode(), str(n).encode()) for n in range(5000))


def test_readers_writers_and_iterators_at_once():
    with Store("a.firn") as store:
        store.put_many((f"lasting {n}", str(n)) for n in range(3000))

        def write():
            for number in range(5000):
                store[f"{threading.get_ident()} {number}"] = bytes(200)

        def read():
            for number in range(3000):
                assert store[f"lasting {number}"] == str(number).encode()

        def iterate():
            for _ in range(3):
                assert sum(key.startswith(b"lasting ") for key in store) == 3000

        def batches():
            keys = [f"lasting {n}" for n in range(3000)]
            assert store.get_many(keys) == [str(n).encode() for n in range(3000)]

        together(write, write, read, iterate, batches)
        assert len(store) == 13_000 and store.check().is_sound


def test_one_iterator_serves_several_threads():
    with Store() as store:
        store.put_many((str(n), b"") for n in range(20_000))
        iterator, lock, seen = iter(store), threading.Lock(), []

        def take():
            while True:
                with lock:
                    key = next(iterator, None)
                if key is None:
                    return
                seen.append(key)

        together(*[take] * 4)
        assert len(seen) == len(set(seen)) == 20_000


def test_closing_waits_for_calls_and_ends_iterators():
    for _ in range(20):
        store = Store("a.firn")
        store.put_many((str(n), b"") for n in range(3000))

        def use():
            try:
                while True:
                    store["a"] = b"1"
                    store.put_many((str(n), b"") for n in range(100))
                    for _ in store.items():
                        pass
            except firndex.Closed:
                pass

        together(use, use, store.close)
    with Store("a.firn") as store:
        assert len(store) >= 3000 and store.check().is_sound


def test_long_calls_run_beside_python():
    """While a batch is stored in one thread, another one's Python code runs: it sees a part of the batch stored."""
    with Store() as store:
        pairs = [(str(n), bytes(100)) for n in range(400_000)]
        seen = set()
        stored = threading.Event()

        def put():
            store.put_many(pairs)
            stored.set()

        def look():
            while not stored.is_set():
                seen.add(len(store))

        together(put, look)
        assert any(0 < found < len(pairs) for found in seen)
