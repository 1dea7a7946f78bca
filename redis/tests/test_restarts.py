"""What a server finds in its pool when it comes back."""

import os
import random

import pytest
import redis
from servers import until


def fill(server, count, mark="v"):
    pipe = server.client.pipeline(transaction=False)
    for n in range(count):
        pipe.execute_command("FIRN.SET", f"k{n}", f"{mark}{n}")
    pipe.execute()


@pytest.mark.parametrize("append_only", ["yes", "no"])
@pytest.mark.parametrize("snapshots", ["marker", "full"])
def test_no_older_value_comes_back(make, append_only, snapshots):
    server = make("--save", "", "--appendonly", append_only, module=["snapshots", snapshots]).start()
    fill(server, 1000, "old")
    server("SET", "plain", "1")
    server("FIRN.SET", "gone", "1")
    server("SAVE")
    if append_only == "yes":
        server("BGREWRITEAOF")
        until(lambda: server.info("aof_rewrite_in_progress") == 0 and server.info("aof_rewrite_scheduled") == 0)
    fill(server, 500, "new")
    server("FIRN.INCRBY", "count", 5)
    server("FIRN.INCRBY", "count", 5)
    server("FIRN.DEL", "gone")
    before = server.everything()
    for end in ["kill", "stop", "kill"]:
        server.kill() if end == "kill" else server.stop("save")
        server.start()
        assert server.everything() == before
        assert server("FIRN.GET", "count") == b"10" and server("FIRN.GET", "gone") is None
        assert server("FIRN.CHECK") == b"OK"
        assert server("GET", "plain") == b"1"


def test_nothing_of_the_pool_is_in_the_append_only_file(make):
    server = make("--save", "", "--appendonly", "yes", "--appendfsync", "always").start()
    server("SET", "in-the-log", "1")
    server("FIRN.SET", "in-the-pool", "1")
    server("FIRN.DEL", "in-the-pool")
    directory = os.path.join(server.directory, "appendonlydir")
    log = b"".join(open(os.path.join(directory, name), "rb").read() for name in os.listdir(directory))
    assert b"in-the-log" in log and b"in-the-pool" not in log


def test_a_kill_while_a_snapshot_is_written(make):
    server = make("--save", "", "--rdb-key-save-delay", "100000", module=["snapshots", "full"]).start()
    fill(server, 2000)
    for n in range(100):
        server("SET", f"plain{n}", n)
    server("BGSAVE")
    server("FIRN.SET", "k0", "during")
    assert server.info("rdb_bgsave_in_progress") == 1
    server.kill()
    server.start()
    assert server("FIRN.GET", "k0") == b"during" and server("FIRN.LEN") == 2000


def test_kills_at_any_moment_lose_nothing_that_was_answered(make):
    seed = int(os.environ.get("FIRN_SEED", random.randrange(1 << 32)))
    print("FIRN_SEED", seed)
    chance = random.Random(seed)
    server = make("--save", "", "--appendonly", "yes", module=["durability", "process"]).start()
    model, next_value = {}, 0
    for _ in range(5):
        sent, killed_at = 0, chance.randrange(200, 3000)
        connection = server.client.connection_pool.get_connection()
        pending = []
        for _ in range(killed_at):
            key, next_value = f"k{chance.randrange(300)}", next_value + 1
            pending.append((key, str(next_value)))
            connection.send_command("FIRN.SET", key, next_value)
        answered = chance.randrange(killed_at)
        for _ in range(answered):
            assert connection.read_response() == b"OK"
        server.kill()
        server.start()
        allowed = {key: {value} for key, value in model.items()}
        for index, (key, value) in enumerate(pending):
            if index < answered:
                allowed[key] = {value}
            else:
                allowed.setdefault(key, {None}).add(value)
        found = {key.decode(): value.decode() for key, value in server.everything().items()}
        for key, values in allowed.items():
            assert found.get(key) in values, key
        model = found


def test_a_snapshot_without_its_pool_is_refused(make):
    server = make("--save", "").start()
    fill(server, 10)
    server.stop("save")
    for name in os.listdir(server.directory):
        if name.startswith("pool.firn"):
            os.rename(os.path.join(server.directory, name), os.path.join(server.directory, "away-" + name))
    server.start(wait=False)
    server.process.wait(60)
    assert "there was none at" in server.said()
    server.module = ["new-pool", "yes"]
    server.start()
    assert server("FIRN.LEN") == 0


def test_a_full_snapshot_is_a_backup(make):
    server = make("--save", "", module=["snapshots", "full"]).start()
    fill(server, 3000)
    server("FIRN.SET", "ends", "v", "EX", 1000)
    before = server.everything()
    server("BGSAVE")
    until(lambda: server.info("rdb_bgsave_in_progress") == 0)
    assert server.info("rdb_last_bgsave_status") == "ok"
    server.kill()
    for name in os.listdir(server.directory):
        if name.startswith("pool.firn"):
            path = os.path.join(server.directory, name)
            os.rename(path, path.replace("pool.firn", "lost.firn"))
    server.start()
    assert server.everything() == before
    assert server("FIRN.TTL", "ends") > 900
    assert server("FIRN.CHECK") == b"OK"


def test_two_servers_cannot_have_one_pool(make, tmp_path):
    path = tmp_path / "shared.firn"
    make("--save", "", module=["path", path]).start()
    second = make("--save", "", module=["path", path]).start(wait=False)
    assert second.process.wait(60) != 0
    assert "give each server a path of its own" in second.said()


def test_debug_reload_keeps_the_pool(make):
    server = make("--save", "", module=["snapshots", "full"]).start()
    fill(server, 100)
    server("DEBUG", "RELOAD")
    assert server("FIRN.LEN") == 100
    with pytest.raises(redis.ResponseError):
        server("FIRN.GET")
