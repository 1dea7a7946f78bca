"""Not run: mypy and pyright read it. A mistake has to be reported, or its `type: ignore` is unused: an error, too."""

from datetime import timedelta
from pathlib import Path
from typing import Literal

import numpy as np
from typing_extensions import assert_type

import firndex
import firndex.django
import firndex.flask_caching
from firndex import Cache, Store, Table, cached


def stores() -> None:
    with Store(Path("a.firn"), "w", max_bytes=1 << 30, durability="commit", guests=False) as store:
        assert_type(store.role, Literal["owner", "guest"])
        store["a"] = b"1"
        store[b"b"] = bytearray(b"2")
        store["c"] = memoryview(b"3")
        assert_type(store["a"], bytes)
        assert_type(store.get("a"), bytes | None)
        assert_type(store.get("a", 7), bytes | int)
        assert_type(store.pop("a"), bytes)
        assert_type(store.get_many(["a", b"b"]), list[bytes | None])
        assert_type(store.modify("a", lambda value: (value or b"") + b"!"), bytes | None)
        assert_type(store.view("a"), memoryview | None)
        assert_type(store.check().findings, list[str])
        assert_type(list(store.items()), list[tuple[bytes, bytes]])
        store.update({"a": b"1"}, b=b"2")
        store |= [("a", b"1")]
        store[7] = b"1"  # type: ignore[index]
        store["a"] = 1  # type: ignore[assignment]
    Store("a.firn", "q")  # type: ignore[arg-type]
    Store("a.firn", colour="red")  # type: ignore[call-arg]
    with firndex.open("a.firn", "c") as database:
        assert_type(database.keys(), list[bytes])


def tables() -> None:
    with Table(key="i8", value=np.dtype([("file", "u4")])) as table:
        table.put_many(np.arange(3), [1, 2, 3])
        _, found = table.get_many([1, 2])
        assert_type(found, "np.typing.NDArray[np.bool_]")
        table.get_many([1], out="values")  # type: ignore[arg-type]


def caches() -> None:
    with Cache(Path("a.firn"), 1 << 20, durability="process", guests=False, patience=1) as cache:
        assert_type(cache.role, Literal["owner", "guest"])
        cache["a"] = b"1"
        cache.set("a", bytearray(b"1"), expire=timedelta(hours=1))
        cache.set_many({"a": "1"}, 0.5)
        assert_type(cache["a"], bytes)
        assert_type(cache.get("a"), bytes | None)
        assert_type(cache.get("a", 7), bytes | int)
        assert_type(cache.pop("a", None), bytes | None)
        assert_type(cache.time_left("a"), float | None)
        assert_type(cache.get_many(["a"]), list[bytes | None])
        assert_type(list(cache), list[bytes])
        assert_type(list(cache.items()), list[tuple[bytes, bytes]])
        assert_type(cache.get_or_compute("a", lambda: "1", expire=60), bytes)
        assert_type(cache.stats()["hits"], float)
        cache.set("a", b"1", expire="1")  # type: ignore[arg-type]
        cache.get_or_compute("a", lambda: 1)  # type: ignore[arg-type,return-value]
    Cache("a.firn", 1 << 20, max_bytes=1)  # type: ignore[call-arg]
    cached(cache, expire=timedelta(days=1))
    cached("results.firn", capacity=1 << 20, expire=60)


@cached("results.firn", version=1)
def square(n: int) -> int:
    return n * n


def results() -> None:
    assert_type(square(2), int)
    assert_type(square.cache_info().hits, int)
    square("2")  # type: ignore[arg-type]


def backends() -> None:
    assert_type(firndex.django.FirndexCache("web.firn", {}).cache, Cache)
    assert_type(firndex.flask_caching.FirndexCache("web.firn", key_prefix="a").cache, Cache)
