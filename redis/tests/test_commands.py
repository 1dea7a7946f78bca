"""Each command by itself, beside Redis' own where there is one."""

import pytest
import redis
from servers import until


def both(server, name, *arguments):
    """What the module and Redis answer to the same; texts of errors without the command's name."""

    def answer(prefix):
        try:
            return server(prefix + name, *arguments)
        except redis.ResponseError as error:
            return str(error).replace("firn.", "").lower()

    ours, theirs = answer("FIRN."), answer("")
    assert ours == theirs, (name, arguments)
    return ours


SETS = [
    ("a", "1"), ("a", "2", "NX"), ("a", "2", "XX"), ("b", "2", "XX"), ("b", "2", "NX"), ("a", "3", "GET"),
    ("c", "1", "GET"), ("c", "2", "NX", "GET"), ("d", "1", "XX", "GET"), ("a", "4", "EX", "100"),
    ("a", "5", "KEEPTTL"), ("a", "6"), ("a", "6", "PX", "100000", "NX"), ("e", "1", "PX", "100000", "NX"),
    ("a", "1", "EX", "0"), ("a", "1", "EX", "-5"), ("a", "1", "PX", "0"), ("a", "1", "EX", "x"),
    ("a", "1", "EX"), ("a", "1", "NX", "XX"), ("a", "1", "EX", "5", "PX", "5"), ("a", "1", "EX", "5", "KEEPTTL"),
    ("a", "1", "KEEPTTL", "PX", "5"), ("a", "1", "EX", "9223372036854775807"), ("a", "1", "FOO"), ("a", "1", "EX", "5", "EX", "7"),
    ("a", "1", "PX", "9223372036854775807"), ("a", "1", "ex", "100", "get", "xx"), ("a",), (), ("f", "1", "PXAT", "1"),
    ("f", "1", "EXAT", "99999999999"), ("", ""), ("\0firn", "x"), ("\0firn:position", "y"), ("a", "\0\r\n"),
]


def test_set_is_as_redis_has_it(server):
    for arguments in SETS:
        both(server, "SET", *arguments)
        for key in ("a", "b", "c", "d", "e", "f", "", "\0firn", "\0firn:position"):
            both(server, "GET", key)
            ours, theirs = server("FIRN.TTL", key), server("TTL", key)
            assert abs(ours - theirs) <= 1, (arguments, key)


def test_numbers_are_as_redis_has_them(server):
    for value in ["10", "-3", "9223372036854775800", "x", "", " 1", "01", "1.5"]:
        both(server, "SET", "n", value, "EX", "100")
        for increment in ["5", "-7", "9223372036854775807", "x", "", "+1"]:
            both(server, "INCRBY", "n", increment)
        both(server, "GET", "n")
        assert server("FIRN.TTL", "n") > 90
    both(server, "INCRBY", "new", "3")


def test_many_keys_are_as_redis_has_them(server):
    both(server, "MSET", "a", "1", "b", "2", "a", "3")
    both(server, "MGET", "a", "none", "b", "a")
    both(server, "EXISTS", "a", "a", "none", "b")
    both(server, "DEL", "a", "a", "none")
    both(server, "GETDEL", "b")
    both(server, "GETDEL", "b")
    for name, arguments in [("MSET", ("a",)), ("MSET", ("a", "1", "b")), ("MGET", ()), ("DEL", ()), ("GETDEL", ())]:
        both(server, name, *arguments)
    assert server("FIRN.LEN") == 0


def test_ends(server):
    for name in ("FIRN.", ""):
        server(name + "SET", "k", "v")
    both(server, "TTL", "none")
    both(server, "TTL", "k")
    for seconds in ["100", "x", "9223372036854775807", "-9223372036854775808"]:
        both(server, "EXPIRE", "k", seconds)
    both(server, "EXPIRE", "none", "100")
    assert server("FIRN.TTL", "k") > 90
    both(server, "EXPIRE", "k", "-1")
    both(server, "GET", "k")
    server("FIRN.MSET", *[f"{part}{n}" for n in range(300) for part in "kv"])
    for n in range(300):
        server("FIRN.SET", f"k{n}", "v", "PX", "1" if n % 2 else "100000")
    # Nobody reads them: they go by themselves.
    until(lambda: server("FIRN.LEN") == 150)
    assert server("FIRN.EXISTS", *[f"k{n}" for n in range(300)]) == 150


def test_compare_and_swap(server):
    assert server("FIRN.CAS", "k", "", "1") == 0
    server("FIRN.SET", "k", "1", "EX", 100)
    assert server("FIRN.CAS", "k", "2", "3") == 0
    assert server("FIRN.CAS", "k", "1", "2") == 1
    assert server("FIRN.GET", "k") == b"2" and server("FIRN.TTL", "k") > 90


def test_a_scan_shows_every_key_once(server):
    keys = {f"key {n}".encode() for n in range(5000)}
    for key in keys:
        server("FIRN.SET", key, "v")
    assert set(server.everything()) == keys
    cursor, found = b"0", set()
    while True:
        cursor, some = server("FIRN.SCAN", cursor, "MATCH", "key [12]?", "COUNT", 500)
        found |= set(some)
        if cursor == b"0":
            break
    assert found == {f"key {n}".encode() for n in range(10, 30)}
    for arguments in [("x",), ("0", "COUNT"), ("0", "COUNT", "0"), ("0", "COUNT", "x"), ("0", "FOO", "1"), ("-1",)]:
        with pytest.raises(redis.ResponseError):
            server("FIRN.SCAN", *arguments)


def test_what_waits_is_refused_where_nothing_may_wait(server):
    server("FIRN.SET", "k", "v")
    for command in ["FIRN.SCAN 0", "FIRN.CHECK", "FIRN.SYNC"]:
        pipe = server.client.pipeline(transaction=True)
        pipe.execute_command(*command.split())
        with pytest.raises(redis.ResponseError, match="on a thread"):
            pipe.execute()
        assert server(*command.split())
    script = "return redis.pcall('FIRN.SCAN', 0)"
    with pytest.raises(redis.ResponseError):
        server("EVAL", script, 0)


def test_transactions_scripts_and_watches(server):
    pipe = server.client.pipeline(transaction=True)
    pipe.execute_command("FIRN.SET", "a", "1")
    pipe.execute_command("FIRN.INCRBY", "a", "4")
    assert pipe.execute() == [b"OK", 5]
    assert server("EVAL", "return redis.call('FIRN.INCRBY', KEYS[1], 2)", 1, "a") == 7
    pipe = server.client.pipeline(transaction=True)
    pipe.watch("a")
    server("FIRN.SET", "a", "changed")
    pipe.multi()
    pipe.execute_command("FIRN.SET", "a", "lost")
    with pytest.raises(redis.WatchError):
        pipe.execute()


def test_resp3(server):
    client = redis.Redis(port=server.port, protocol=3)
    client.execute_command("FIRN.SET", "a", "1")
    assert client.execute_command("FIRN.GET", "none") is None
    assert client.execute_command("FIRN.INFO")[b"keys"] == 1
    assert client.execute_command("FIRN.MGET", "a", "b") == [b"1", None]


KEYS = [
    ("FIRN.GET k", ["k"]), ("FIRN.SET k v EX 1", ["k"]), ("FIRN.MSET a 1 b 2", ["a", "b"]), ("FIRN.MGET a b c", ["a", "b", "c"]),
    ("FIRN.DEL a b", ["a", "b"]), ("FIRN.EXISTS a b", ["a", "b"]), ("FIRN.CAS k a b", ["k"]), ("FIRN.INCRBY k 1", ["k"]),
    ("FIRN.GETDEL k", ["k"]), ("FIRN.EXPIRE k 1", ["k"]), ("FIRN.TTL k", ["k"]),
]


def test_the_server_knows_keys_flags_and_docs(server):
    for command, keys in KEYS:
        found = server("COMMAND", "GETKEYS", *command.split())
        assert [key.decode() for key in found] == keys, command
    names = [command.split()[0].lower() for command, _ in KEYS]
    names += ["firn.scan", "firn.len", "firn.info", "firn.sync", "firn.check"]
    writes = {"firn.set", "firn.mset", "firn.del", "firn.cas", "firn.incrby", "firn.getdel", "firn.expire"}
    for name in names:
        flags = server("COMMAND", "INFO", name)[0][2]
        assert (b"write" if name in writes else b"readonly") in flags, name
        assert b"summary" in server("COMMAND", "DOCS", name)[1], name
    # Users may be given single keys of it, and single commands.
    server("ACL", "SETUSER", "reader", "on", ">p", "resetkeys", "%R~open:*", "+firn.get", "+firn.set")
    reader = redis.Redis(port=server.port, username="reader", password="p")
    assert reader.execute_command("FIRN.GET", "open:1") is None
    for denied in ["FIRN.GET shut", "FIRN.SET open:1 v", "FIRN.DEL open:1"]:
        with pytest.raises(redis.exceptions.NoPermissionError):
            reader.execute_command(*denied.split())


def test_clients_cannot_pretend_to_be_a_master(server):
    for command in [("FIRN.REPLPUT", "k", "s" * 16, "\0v"), ("FIRN.REPLDEL", "k", "s" * 16, "")]:
        with pytest.raises(redis.ResponseError, match="for the stream of a master"):
            server(*command)


def test_unloading_is_refused(make):
    server = make("--save", "", "--enable-module-command", "local").start()
    with pytest.raises(redis.ResponseError):
        server("MODULE", "UNLOAD", "firn")
    assert server("FIRN.SET", "k", "v") == b"OK"


def test_wrong_arguments_of_the_module_are_said(make):
    server = make("--save", "", module=["durability", "always"]).start(wait=False)
    assert server.process.wait(60) != 0
    assert "expected process, periodic or commit" in server.said()


def test_a_full_pool_says_so_and_goes_on(make):
    server = make("--save", "", module=["max-bytes", "2mb", "durability", "process"]).start()
    stored = 0
    with pytest.raises(redis.ResponseError, match="firndex"):
        for n in range(100_000):
            server("FIRN.SET", f"k{n}", "v" * 1000)
            stored += 1
    assert stored > 100 and server("FIRN.LEN") == stored
    assert server("FIRN.DEL", "k0", "k1") == 2
    assert server("FIRN.CHECK") == b"OK"
