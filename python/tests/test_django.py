"""Django's cache interface, with a cache of this package behind it."""

import asyncio
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest

import firndex

django = pytest.importorskip("django")

from django.conf import settings  # noqa: E402
from django.core.cache import CacheHandler  # noqa: E402
from django.core.cache.backends.base import CacheKeyWarning  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402

from firndex.django import FirndexCache  # noqa: E402
from test_processes import Owner  # noqa: E402
from test_threads import together  # noqa: E402

LONG = 3600


@pytest.fixture(scope="module", autouse=True)
def configured():
    if not settings.configured:
        settings.configure()


def opened(location="web.firn", **params):
    params.setdefault("OPTIONS", {"capacity": 1 << 20})
    return FirndexCache(location, params)


@pytest.fixture
def cache(own_directory):
    cache = opened()
    yield cache
    cache.cache.close()


def test_django_makes_it_by_its_name():
    backend = {"BACKEND": "firndex.django.FirndexCache", "LOCATION": "web.firn", "TIMEOUT": None,
               "OPTIONS": {"capacity": 1 << 20, "durability": "process"}}
    caches = CacheHandler({"default": backend, "other": {**backend, "KEY_PREFIX": "other"}})
    default, other = caches["default"], caches["other"]
    assert isinstance(default, FirndexCache)
    default.set("a", 1)
    other.set("a", 2)
    assert (default.get("a"), other.get("a")) == (1, 2) and default.cache is other.cache
    assert default.cache.stats()["capacity_bytes"] == 1 << 20 and default.cache.time_left(":1:a") is None
    # Django does this after each request.
    caches.close_all()
    assert default.get("a") == 1
    default.cache.close()
    assert other.get("a") == 2 and not default.cache.closed
    default.cache.close()


def test_values_of_any_type(cache):
    values = {"none": None, "int": 7, "list": [1, {"a": (2,)}], "bytes": b"1", "class": ValueError, "text": "größer"}
    cache.set_many(values)
    assert cache.get_many([*values, "absent"]) == values
    for key, value in values.items():
        assert cache.get(key, "default") == value and key in cache and cache.has_key(key)
    assert cache.get("absent") is None and cache.get("absent", 7) == 7 and "absent" not in cache
    with pytest.raises((pickle.PicklingError, AttributeError)):
        cache.set("function", lambda: 1)


def test_prefixes_and_versions_are_apart(cache):
    other = opened(KEY_PREFIX="other", VERSION=2)
    own = opened(KEY_FUNCTION=lambda key, prefix, version: f"{prefix}/{version}/{key}")
    for number, (one, version) in enumerate([(cache, None), (cache, 2), (other, None), (other, 1), (own, None)]):
        assert one.add("a", number, version=version)
    assert (cache.get("a"), cache.get("a", version=1), cache.get("a", version=2)) == (0, 0, 1)
    assert (other.get("a"), other.get("a", version=1), own.get("a")) == (2, 3, 4)
    assert cache.get_many(["a"], version=2) == {"a": 1} and cache.has_key("a", version=2)
    assert cache.incr_version("a", version=2) == 3 and cache.get("a", version=3) == 1
    assert cache.get("a", version=2) is None and cache.decr_version("a", version=3) == 2
    with pytest.raises(ValueError):
        cache.incr_version("absent")
    assert cache.delete("a", version=2) and cache.get("a") == 0 and other.get("a") == 2
    assert sorted(cache.cache) == [b"/1/a", b":1:a", b"other:1:a", b"other:2:a"]
    cache.clear()
    assert other.get("a") is None and own.get("a") is None


def test_timeouts(cache):
    def left(key):
        return cache.cache.time_left(f":1:{key}")

    cache.set("default", 1)
    cache.set("lasting", 1, timeout=None)
    cache.set("long", 1, timeout=LONG)
    assert 200 < left("default") <= 300 and left("lasting") is None and LONG - 600 < left("long") <= LONG
    for over in (0, -1):
        cache.set("long", 1)
        cache.set("long", 2, timeout=over)
        assert "long" not in cache
        assert cache.add("long", 3, timeout=over) and cache.get("long") is None
        cache.set_many({"long": 1, "other": 1}, timeout=over)
        assert cache.get_many(["long", "other"]) == {}
        assert cache.get_or_set("long", lambda: 4, timeout=over) == 4 and "long" not in cache
        cache.set("long", 1)
        assert cache.touch("long", timeout=over) and "long" not in cache
    assert cache.touch("default", LONG) and LONG - 600 < left("default") <= LONG
    assert cache.touch("default") and left("default") <= 300
    assert cache.touch("default", None) and left("default") is None
    assert not cache.touch("absent") and not cache.touch("absent", None)
    assert opened(TIMEOUT=None).set("a", 1) is None and left("a") is None
    opened(TIMEOUT=0).set("a", 1)
    assert "a" not in cache


def test_add_and_delete(cache):
    assert cache.add("a", 1) and not cache.add("a", 2) and cache.get("a") == 1
    assert cache.delete("a") and not cache.delete("a") and cache.add("a", None) and not cache.add("a", 3)
    cache.set_many({str(number): number for number in range(10)})
    cache.delete_many(str(number) for number in range(0, 20, 2))
    assert cache.get_many(map(str, range(10))) == {str(number): number for number in range(1, 10, 2)}


def test_incr_and_decr(cache):
    cache.set("n", 40, timeout=LONG)
    assert (cache.incr("n"), cache.incr("n", 10), cache.decr("n", 9), cache.incr("n", -1)) == (41, 51, 42, 41)
    assert cache.get("n") == 41 and cache.cache.time_left(":1:n") > 300
    cache.set("n", 2, timeout=None, version=2)
    assert cache.incr("n", version=2) == 3 and cache.cache.time_left(":2:n") is None
    for call in (cache.incr, cache.decr):
        with pytest.raises(ValueError, match="'absent'"):
            call("absent")
    cache.set("text", "a")
    with pytest.raises(TypeError):
        cache.incr("text")
    assert cache.get("text") == "a"


def test_get_or_set(cache):
    assert cache.get_or_set("a", 1) == 1 and cache.get_or_set("a", lambda: 2) == 1
    assert cache.get_or_set("none", lambda: None) is None and "none" in cache
    assert cache.get_or_set("b", lambda: cache.get_or_set("c", lambda: 3, LONG) + 1, version=2) == 4
    assert cache.get("b") is None and cache.get("b", version=2) == 4
    with pytest.raises(ZeroDivisionError):
        cache.get_or_set("d", lambda: 1 / 0)
    assert "d" not in cache

    def overtaken():
        cache.set("e", "stored meanwhile")
        return "computed"

    assert cache.get_or_set("e", overtaken) == "stored meanwhile" == cache.get("e")


def test_threads(cache):
    cache.set("n", 0)
    added, computed = [], []

    def compute():
        computed.append(1)
        return len(computed)

    def work():
        own = opened()
        for number in range(300):
            own.incr("n")
            if own.add(f"add-{number}", threading.get_ident()):
                added.append(number)
            own.get_or_set(f"compute-{number}", compute)

    together(*[work] * 4)
    assert cache.get("n") == 1200 and sorted(added) == list(range(300)) and len(computed) == 300


def test_asynchronous_calls(cache):
    async def use():
        await cache.aset("n", 1)
        assert await cache.aincr("n", 2) == 3 and await cache.adecr("n") == 2
        await asyncio.gather(*[cache.aincr("n") for _ in range(50)])
        assert await cache.aget_many(["n", "absent"]) == {"n": 52} and await cache.aadd("a", 1)
        assert not await cache.aadd("a", 1) and await cache.atouch("a", LONG) and await cache.ahas_key("a")
        assert await cache.aget_or_set("b", lambda: 2) == 2
        await cache.adelete_many(["a", "b"])
        await cache.aset_many({"c": 1}, timeout=0)
        assert await cache.aget("c") is None and await cache.adelete("n")
        await cache.aclear()

    asyncio.run(use())
    assert len(cache.cache) == 0


def test_keys_that_memcached_would_refuse_are_warned_of(cache):
    with pytest.warns(CacheKeyWarning):
        cache.set("with space", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheKeyWarning)
        assert cache.get("with space") == 1
        cache.set("k" * 1000, 2)
        assert cache.get("k" * 1000) == 2


def test_what_is_too_large_is_not_kept(cache):
    cache.set("a", 1)
    cache.set("a", bytes(1 << 19))
    assert "a" not in cache and not cache.add("a", bytes(1 << 19))
    assert cache.set_many({"a": bytes(1 << 19), "b": 2}) == ["a"] and cache.get_many(["a", "b"]) == {"b": 2}
    large = bytes(1 << 19)
    assert cache.get_or_set("a", lambda: large) == large and "a" not in cache


def test_the_file_has_its_bound(cache):
    for number in range(3000):
        cache.set(str(number), bytes(2000))
    assert cache.cache.stats()["evictions"] > 0 and os.path.getsize("web.firn") <= (1 << 20) * 1.02
    assert cache.cache.check().is_sound


def test_options(own_directory):
    with pytest.raises(ImproperlyConfigured, match="LOCATION"):
        FirndexCache("", {})
    with pytest.raises(TypeError, match="no argument colour"):
        opened(OPTIONS={"colour": 1}).get("a")
    with pytest.raises(firndex.BadOption, match="capacity_bytes"):
        opened(OPTIONS={"capacity": 1}).get("a")
    with pytest.raises(firndex.BadOption, match="workers is 0"):
        opened(OPTIONS={"workers": 0})
    new = opened("new.firn", OPTIONS={"MAX_ENTRIES": 10, "CULL_FREQUENCY": 2})
    new.set("a", 1)
    assert new.cache.stats()["capacity_bytes"] == 64 << 20
    assert opened(os.path.abspath("new.firn"), OPTIONS={}).get("a") == 1
    with pytest.raises(firndex.BadOption, match="same capacity"):
        opened("new.firn", OPTIONS={"capacity": 1 << 20}).get("a")
    with pytest.raises(firndex.BadOption, match="same options"):
        opened("new.firn", OPTIONS={"durability": "commit"}).get("a")
    new.cache.close()
    again = opened("new.firn", OPTIONS={"durability": "process"})
    assert again.get("a") == 1 and again.cache.stats()["capacity_bytes"] == 64 << 20
    again.cache.close()


def run(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


OTHER = """
    import firndex
    from django.conf import settings
    settings.configure()
    from firndex.django import FirndexCache
    cache = FirndexCache("web.firn", {{"OPTIONS": {options}}})
    try:
        print(cache.get("a"), cache.cache.path, cache.cache.role)
    except firndex.Held as error:
        print(error)
"""


def test_processes_share_it(cache):
    cache.set("a", 1)
    assert run(OTHER.format(options={})) == f"1 {os.getcwd()}/web.firn guest\n"
    cache.cache.close()
    assert run(OTHER.format(options={})) == f"1 {os.getcwd()}/web.firn owner\n"
    with firndex.Cache("web.firn", guests=False):
        assert "the argument `guests`" in run(OTHER.format(options={"wait": 0}))


def test_a_forked_worker_opens_it_by_itself(cache):
    cache.set_many({"a": 1, "n": 1})
    inherited = cache.cache
    child = os.fork()
    if child == 0:
        done = 1
        try:
            assert cache.get("a") == 1 and cache.cache.role == "guest" and cache.cache is not inherited
            with pytest.raises(firndex.Forked):
                inherited.get(":1:a")
            assert cache.get_many(["a", "n", "absent"]) == {"a": 1, "n": 1} and cache.incr("n", 5) == 6
            assert cache.add("added", 2) and not cache.add("a", 2) and cache.get_or_set("computed", lambda: 3) == 3
            assert cache.delete("a") and cache.touch("added", LONG) and cache.set_many({"b": 4}) == []
            # Another alias of the same path.
            assert opened().cache is cache.cache
            done = 0
        finally:
            os._exit(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.cache is inherited and inherited.role == "owner"
    names = ["a", "n", "added", "computed", "b"]
    assert cache.get_many(names) == {"n": 6, "added": 2, "computed": 3, "b": 4}
    assert cache.cache.time_left(":1:added") > 300


def test_workers_of_a_preloaded_application_outlive_their_owner(own_directory):
    code = """
        import os, signal, sys
        from django.conf import settings
        settings.configure()
        from firndex.django import FirndexCache
        cache = FirndexCache("web.firn", {"OPTIONS": {"capacity": 1 << 20}, "TIMEOUT": None})
        cache.set("preloaded", 1)
        if os.fork():
            signal.pause()
        cache.set("worker", cache.get("preloaded") + 1)
        print(cache.cache.role, flush=True)
        sys.stdin.readline()
        cache.incr("worker")
        cache.set_many({"late": 4, "deleted": 5})
        cache.delete("deleted")
        print(cache.get_many(["preloaded", "worker", "late", "deleted"]), cache.cache.role, flush=True)
        sys.stdin.readline()
        os._exit(0)
    """
    pipe = subprocess.PIPE
    master = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdin=pipe, stdout=pipe, text=True)
    assert master.stdout.readline() == "guest\n"
    master.kill()
    assert master.wait() == -9
    master.stdin.write("\n")
    master.stdin.flush()
    assert master.stdout.readline() == "{'preloaded': 1, 'worker': 3, 'late': 4} owner\n"
    other = opened(OPTIONS={})
    assert other.get("late") == 4 and other.cache.role == "guest"
    master.communicate("\n")
    assert other.get("worker") == 3 and other.incr("worker") == 4
    other.clear()
    assert other.get("preloaded") is None and other.cache.role == "owner"
    other.cache.close()


def test_a_killed_owner_interrupts_no_change(own_directory):
    # Its changes wait for the disk, so it is killed amid some.
    with Owner('firndex.Cache("web.firn", 64 << 20, durability="commit")') as owner:
        cache = opened(TIMEOUT=None, OPTIONS={})
        assert cache.cache.role == "guest"
        turns, failures, may_be_killed = [0] * 4, [], threading.Event()

        def change(number):
            try:
                while cache.cache.role == "guest":
                    turn = turns[number]
                    cache.set(f"{number}-{turn}", turn)
                    assert cache.add(f"added-{number}-{turn}", turn) and cache.touch(f"{number}-{turn}", LONG)
                    cache.delete(f"added-{number}-{turn}")
                    turns[number] += 1
                    if turn == 20:
                        may_be_killed.set()
            except Exception as error:
                failures.append(error)
                may_be_killed.set()

        threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        assert may_be_killed.wait(60)
        owner.kill()
        for thread in threads:
            thread.join()
        assert failures == []
        for number, count in enumerate(turns):
            kept = {f"{number}-{turn}": turn for turn in range(count)}
            assert cache.get_many(kept) == kept
            assert cache.get_many(f"added-{key}" for key in kept) == {}
        assert cache.cache.check().is_sound
        cache.cache.close()


def test_the_capacity_of_another_owner_is_no_contradiction(own_directory):
    with Owner('firndex.Cache("web.firn", 2 << 20)'):
        one, two = opened(), opened()
        one.set("a", 1)
        assert two.get("a") == 1 and two.cache.stats()["capacity_bytes"] == 2 << 20
        with pytest.raises(firndex.BadOption, match="same capacity"):
            opened(OPTIONS={"capacity": 3 << 20}).get("a")
        one.cache.close()


def test_workers_have_a_file_each(own_directory):
    options = {"workers": 2, "capacity": 1 << 20}
    first = opened(OPTIONS=options)
    first.set("a", 1)
    assert str(first.cache.path).endswith("web.firn.0")
    assert run(OTHER.format(options=options)) == f"None {os.getcwd()}/web.firn.1 owner\n"
    # One that lets others in is not shared either.
    with firndex.Cache("web.firn.1"):
        told = run(OTHER.format(options={**options, "wait": 0.05}))
        assert "all of" in told and "web.firn.1 are in use" in told and "`workers`" in told
    child = os.fork()
    if child == 0:
        done = 1
        try:
            done = str(first.cache.path) != f"{os.getcwd()}/web.firn.1" or first.get("a") is not None
        finally:
            os._exit(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    first.cache.close()
    assert run(OTHER.format(options=options)) == f"1 {os.getcwd()}/web.firn.0 owner\n"
    for shared in ({"guests": True}, {"never_own": True}):
        with pytest.raises(firndex.BadOption, match="a file to itself"):
            opened(OPTIONS={**options, **shared})


def test_it_is_there_after_sigkill(own_directory):
    code = OTHER.format(options={"capacity": 1 << 20}) + """
    cache.set("a", {"n": 1}, timeout=None)
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)]).returncode == -9
    cache = opened()
    assert cache.get("a") == {"n": 1}
    cache.cache.close()
