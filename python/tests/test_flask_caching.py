"""Flask-Caching's interface, with a cache of this package behind it."""

import json
import os
import subprocess
import sys
import textwrap
import threading

import pytest

import firndex

flask = pytest.importorskip("flask")
flask_caching = pytest.importorskip("flask_caching")

from firndex.flask_caching import FirndexCache  # noqa: E402
from test_threads import together  # noqa: E402

LONG = 3600


@pytest.fixture
def cache(own_directory):
    cache = FirndexCache("web.firn", 1 << 20)
    yield cache
    cache.cache.close()


def application(**config):
    app = flask.Flask(__name__)
    config = {"CACHE_TYPE": "firndex.flask_caching.FirndexCache", "CACHE_OPTIONS": {"path": "web.firn"}, **config}
    return app, flask_caching.Cache(app, config=config)


def test_flask_caching_makes_it_by_its_name():
    app, cache = application(CACHE_DEFAULT_TIMEOUT=60, CACHE_OPTIONS={"path": "web.firn", "capacity": 1 << 20})
    computed = []

    @app.route("/")
    @cache.cached()
    def page():
        computed.append("page")
        return f"{len(computed)}"

    @cache.memoize()
    def square(n):
        computed.append(n)
        return n * n

    with app.app_context():
        visitor = app.test_client()
        assert visitor.get("/").data == visitor.get("/").data == b"1"
        assert square(3) == square(3) == 9 and square(4) == 16 and computed == ["page", 3, 4]
        cache.delete_memoized(square, 3)
        assert square(3) == 9 and square(4) == 16 and computed[3:] == [3]
        assert cache.set("a", [1]) and cache.get("a") == [1] and cache.has("a")
        own = cache.cache
        assert isinstance(own, FirndexCache) and own.default_timeout == 60
        assert own.cache.stats()["capacity_bytes"] == 1 << 20
        assert own.cache.time_left("flask_cache_a") <= 60
        assert cache.get_many("a", "b") == [[1], None] and cache.get_dict("a", "b") == {"a": [1], "b": None}
        cache.clear()
        assert not cache.has("a") and len(own.cache) == 0
        own.cache.close()


def test_applications_share_a_file():
    one, of_one = application(CACHE_KEY_PREFIX="one ")
    two, of_two = application(CACHE_KEY_PREFIX="two ")
    with one.app_context():
        of_one.set("a", 1)
        own = of_one.cache.cache
    with two.app_context():
        assert of_two.get("a") is None
        of_two.set("a", 2)
        assert of_two.cache.cache is own and sorted(own) == [b"one a", b"two a"]
        of_two.clear()
    with one.app_context():
        assert of_one.get("a") == 1 and list(own) == [b"one a"]
    own.close()


def test_another_serializer():
    class Json:
        def dumps(self, value):
            return json.dumps(value).encode()

        def loads(self, value):
            return json.loads(value)

    cache = FirndexCache("web.firn", 1 << 20, key_prefix="json ")
    cache.serializer = Json()
    assert cache.set("a", {"n": [1]}) and cache.get("a") == {"n": [1]} and cache.cache["json a"] == b'{"n": [1]}'
    cache.cache.close()


def test_single_calls(cache):
    values = {"none": None, "int": 7, "list": [1, {"a": (2,)}], "bytes": b"1", "class": ValueError, "text": "größer"}
    assert sorted(cache.set_many(values)) == sorted(values)
    assert cache.get_many(*values, "absent") == [*values.values(), None]
    assert cache.get_dict("int", "absent") == {"int": 7, "absent": None}
    for key, value in values.items():
        assert cache.get(key) == value and cache.has(key)
    assert cache.get("absent") is None and not cache.has("absent")
    assert cache.add("a", 1) and not cache.add("a", 2) and cache.get("a") == 1
    assert cache.delete("a") and not cache.delete("a")
    assert sorted(cache.delete_many("int", "list")) == ["int", "list"] and not cache.has("int") and cache.has("text")
    assert cache.clear() and not cache.has("text")


def test_timeouts_are_those_of_cachelib(cache):
    def left(key):
        return cache.cache.time_left(key)

    cache.set("default", 1)
    cache.set("for ever", 1, timeout=0)
    cache.set("long", 1, timeout=LONG)
    cache.add("added", 1, timeout=LONG)
    cache.set_many({"one": 1}, timeout=LONG)
    assert 200 < left("default") <= 300 and left("for ever") is None
    assert all(LONG - 600 < left(key) <= LONG for key in ("long", "added", "one"))
    cache.set("long", 2, timeout=-1)
    assert not cache.has("long") and cache.add("long", 3, timeout=-1) and cache.get("long") is None
    for_ever = FirndexCache("web.firn", default_timeout=0)
    for_ever.set("a", 1)
    assert left("a") is None and for_ever.cache is cache.cache


def test_inc_and_dec(cache):
    assert (cache.inc("n"), cache.inc("n", 10), cache.dec("n", 5), cache.dec("m", 2)) == (1, 11, 6, -2)
    cache.set("n", 1, timeout=LONG)
    assert cache.inc("n") == 2 and cache.cache.time_left("n") > 300
    added = []

    def work():
        for number in range(300):
            cache.inc("count")
            if cache.add(f"add {number}", threading.get_ident()):
                added.append(number)

    together(*[work] * 4)
    assert cache.get("count") == 1200 and sorted(added) == list(range(300))


def test_what_is_too_large_is_not_kept(cache):
    large = bytes(1 << 19)
    assert cache.set("a", 1) and not cache.set("a", large) and not cache.has("a") and not cache.add("a", large)
    assert cache.set_many({"a": large, "b": 2}) == ["b"]


def test_the_file_has_its_bound(cache):
    for number in range(3000):
        cache.set(str(number), bytes(2000))
    assert cache.cache.stats()["evictions"] > 0 and os.path.getsize("web.firn") <= (1 << 20) * 1.02


OTHER = """
    from firndex.flask_caching import FirndexCache
    cache = FirndexCache("web.firn", key_prefix="p ", default_timeout=0)
    print(cache.get("a"), cache.set("other", 2), cache.cache.role)
    with_workers = FirndexCache("own.firn", workers=2)
    with_workers.set("a", 1)
    print(with_workers.cache.path, with_workers.cache.role)
"""


def test_processes_share_it():
    cache = FirndexCache("web.firn", 1 << 20, key_prefix="p ")
    cache.set("a", 1)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(OTHER)], capture_output=True, text=True)
    assert done.stdout == f"1 True guest\n{os.getcwd()}/own.firn.0 owner\n", done.stderr
    assert cache.get("other") == 2
    cache.cache.close()


def test_workers_of_a_preloaded_application_outlive_their_owner():
    code = """
        import os, signal, sys
        import flask, flask_caching
        app = flask.Flask("preloaded")
        cache = flask_caching.Cache(app, config={
            "CACHE_TYPE": "firndex.flask_caching.FirndexCache",
            "CACHE_OPTIONS": {"path": "web.firn", "capacity": 1 << 20},
        })
        app.app_context().push()
        cache.set("preloaded", 1)
        inherited = cache.cache.cache
        if os.fork():
            signal.pause()
        cache.set("worker", cache.get("preloaded") + 1)
        print(cache.cache.cache.role, flush=True)
        sys.stdin.readline()
        assert cache.cache.inc("worker") == 3 and cache.add("late", 4) and not cache.add("preloaded", 4)
        print(cache.get_many("preloaded", "worker", "late", "absent"), cache.cache.cache.role, flush=True)
        cache.clear()
        print(cache.get("late"), len(cache.cache.cache), flush=True)
        os._exit(0)
    """
    pipe = subprocess.PIPE
    master = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdin=pipe, stdout=pipe, text=True)
    assert master.stdout.readline() == "guest\n"
    master.kill()
    assert master.wait() == -9
    assert master.communicate("\n")[0] == "[1, 3, 4, None] owner\nNone 0\n"


def test_a_forked_worker_opens_it_by_itself(cache):
    cache.set("a", 1)
    inherited = cache.cache
    child = os.fork()
    if child == 0:
        done = 1
        try:
            assert cache.get("a") == 1 and cache.cache.role == "guest" and cache.cache is not inherited
            assert cache.inc("n") == 1 and cache.delete("a") and cache.set_many({"b": 2}) == ["b"]
            done = 0
        finally:
            os._exit(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.cache is inherited and cache.get_many("a", "n", "b") == [None, 1, 2]


def test_no_path_is_told():
    app = flask.Flask(__name__)
    with pytest.raises(TypeError, match="path"):
        flask_caching.Cache(app, config={"CACHE_TYPE": "firndex.flask_caching.FirndexCache"})
