"""Values in place: they stay as they are until their memoryviews are released, and nothing is copied."""

import gc
import os
import threading

import pytest

import firndex
from firndex import Store


@pytest.fixture
def store():
    with Store("a.firn", durability="process") as store:
        store["large"] = bytes(range(256)) * 4096
        yield store


def test_a_view_reads_like_the_value(store):
    with store.view("large") as view:
        assert view.readonly and view.format == "B" and view.nbytes == 1 << 20
        assert view == store["large"] and view[255] == 255 and bytes(view[256:258]) == b"\0\1"
        with pytest.raises(TypeError):
            view[0] = 1
    with pytest.raises(ValueError):
        view[0]
    store["empty"] = b""
    with store.view("empty") as view:
        assert view.nbytes == 0 and bytes(view) == b""
    assert store.view("absent") is None
    with pytest.raises(TypeError, match="a key is int"):
        store.view(7)


def test_the_bytes_of_a_view_stay_when_the_value_is_replaced_or_removed(store):
    before = store["large"]
    first = store.view("large")
    store["large"] = bytes(1 << 20)
    second = store.view("large")
    del store["large"]
    for number in range(200):
        store[str(number)] = os.urandom(50_000)
        if number >= 20:
            del store[str(number - 20)]
    assert first == before and second == bytes(1 << 20)
    first.release(), second.release()
    assert store.check().is_sound


def test_slices_and_casts_keep_the_value(store):
    part = store.view("large")[10:20].cast("B")
    gc.collect()
    with pytest.raises(BufferError, match="release their memoryviews"):
        store.close()
    assert not store.closed and bytes(part) == bytes(range(10, 20))
    part.release()
    store.close()


def test_a_store_with_a_view_is_not_closed(store):
    view = store.view("large")
    with pytest.raises(BufferError):
        store.close()
    with pytest.raises(BufferError):
        with store:
            pass
    assert store["large"] == view
    del view
    store.close()
    with pytest.raises(firndex.Closed):
        store.view("large")


def test_a_view_outlives_the_last_reference_to_its_store():
    store = Store("b.firn", guests=False)
    store["a"] = b"value" * 1000
    view = store.view("a")
    del store
    gc.collect()
    with pytest.raises(firndex.Held):
        Store("b.firn")
    assert view == b"value" * 1000
    view.release()
    with Store("b.firn") as store:
        assert store["a"] == b"value" * 1000


def test_views_are_released_by_other_threads_than_those_that_made_them(store):
    views = []

    def make():
        for _ in range(200):
            views.append(store.view("large"))

    def release():
        released = 0
        while released < 400:
            if views:
                views.pop().release()
                released += 1

    threads = [threading.Thread(target=call) for call in (make, make, release)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    store["large"] = b"small"
    assert store.check().is_sound


def test_released_space_is_used_again():
    with Store(max_bytes=16 << 20) as store:
        for number in range(300):
            store["a"] = bytes([number % 256]) * (1 << 20)
            with store.view("a") as view:
                assert view[-1] == number % 256


def test_numpy_reads_a_view_without_a_copy(store):
    numpy = pytest.importorskip("numpy")
    array = numpy.frombuffer(store.view("large"), "u1")
    assert array.sum() == 4096 * 255 * 128 and not array.flags.owndata
    del array
    gc.collect()
    store.close()


def test_a_forked_child_drops_inherited_views_and_makes_none(store):
    view = store.view("large")
    child = os.fork()
    if child == 0:
        told = 1
        try:
            view.release()
            store.view("large")
        except firndex.Forked:
            told = 0
        finally:
            os._exit(told)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert view[255] == 255
    view.release()


def test_the_type_behind_a_view_makes_no_values(store):
    view = store.view("large")
    kind = type(view.obj)
    try:
        made = kind()
    except TypeError:
        return
    finally:
        view.release()
    assert bytes(memoryview(made)) == b""
