"""Calls, iterators, views and handles leave no memory behind."""

import gc
import os
import time

import pytest

from firndex import Cache, Store


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_does_not_grow():
    with Store() as store:
        store.put_many((str(n), bytes(4000)) for n in range(1000))

        def use():
            for number in range(100):
                key = str(number)
                store[key] = bytes(4000)
                store[key], store.get("absent"), key in store, store.setdefault(key)
                store.modify(key, lambda value: value)
                store.put_many({key: bytes(4000)}), store.get_many([key, "absent"])
                store.pop(key)
                with store.view("999"):
                    pass
                next(iter(store.items()))
                try:
                    store[7]
                except TypeError:
                    pass
            with Store(max_bytes=1 << 20) as other:
                other["a"] = b"1"

        for _ in range(5):
            use()
        before = resident()
        for _ in range(25):
            use()
        # 2,500 rounds have had ten megabytes in hand for each value that they handle.
        assert resident() - before < 4 << 20


@pytest.mark.parametrize("opened", [Store, lambda path: Cache(path, 1 << 20)], ids=["stores", "caches"])
def test_owners_and_guests_leave_no_descriptors_threads_and_files(opened):
    def held():
        return [len(os.listdir(f"/proc/self/{of}")) for of in ("fd", "task")] + sorted(os.listdir())

    def use():
        for _ in range(10):
            with opened("a.firn") as owner, opened("a.firn") as guest:
                guest["a"] = b"1"
                assert owner["a"] == b"1" and list(guest) == [b"a"]
                owner.close()
                guest["a"] = b"2"

    use()
    before = held()
    use()
    # A thread that has ended may still be there for a moment.
    deadline = time.monotonic() + 60
    while held() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() == before
