"""Slots that are handed over, with two masters that have no replicas."""

import os
import subprocess
import sys
import threading

import pytest
import redis
from redis.cluster import RedisCluster
from servers import until

RESHARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reshard")


@pytest.fixture
def nodes(make):
    nodes = [make("--save", "", "--cluster-enabled", "yes").start() for _ in range(2)]
    nodes[0]("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
    nodes[1]("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
    nodes[0]("CLUSTER", "MEET", "127.0.0.1", nodes[1].port)
    for node in nodes:
        until(lambda: b"cluster_state:ok" in node("CLUSTER", "INFO") and b"cluster_known_nodes:2" in node("CLUSTER", "INFO"))
    return nodes


def client_of(nodes):
    return RedisCluster(host="127.0.0.1", port=nodes[0].port, socket_timeout=120)


def reshard(nodes, *arguments):
    command = [sys.executable, RESHARD, f"127.0.0.1:{nodes[0].port}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def move(nodes, first, last):
    ends = [f"127.0.0.1:{node.port}" for node in nodes]
    done = reshard(nodes, "--from", ends[0], "--to", ends[1], "--slots", f"{first}-{last}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(node):
    keys, cursor = [], b"0"
    while True:
        cursor, some = node("FIRN.SCAN", cursor, "COUNT", 1000)
        keys += some
        if cursor == b"0":
            return set(keys)


def test_slots_move_beside_writers_with_all_their_keys(nodes):
    client = client_of(nodes)
    for n in range(3000):
        client.execute_command("FIRN.SET", f"k{n}", n, *(["EX", "1000"] if n % 3 == 0 else []))
    for n in range(200):
        client.set(f"plain{n}", n)
    over, counts, removed = threading.Event(), {}, set()

    def write():
        own, turn = client_of(nodes), 0
        while not over.is_set():
            turn += 1
            key = f"w{turn % 200}"
            try:
                counts[key] = own.execute_command("FIRN.INCRBY", key, 1)
            except redis.exceptions.ClusterError:
                # It was told to try again more often than it does. Nothing was done.
                continue
            if turn % 10 == 0 and turn // 10 < 1000:
                try:
                    own.execute_command("FIRN.DEL", f"k{turn // 10}")
                    removed.add(turn // 10)
                except redis.exceptions.ClusterError:
                    pass

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: len(counts) == 200)
    for first in range(0, 4000, 1000):
        assert "moved with" in move(nodes, first, first + 999)
    over.set()
    writer.join()
    for key, count in counts.items():
        assert int(client.execute_command("FIRN.GET", key)) == count
    for n in range(3000):
        found = client.execute_command("FIRN.GET", f"k{n}")
        assert found == (None if n in removed else b"%d" % n), n
        if n % 3 == 0 and n not in removed:
            assert client.execute_command("FIRN.TTL", f"k{n}") > 500
    for n in range(200):
        assert client.get(f"plain{n}") == b"%d" % n
    first, second = (shown(node) for node in nodes)
    assert not first & second, "no key is shown twice"
    assert len(first | second) == 3000 - len(removed) + 200
    assert nodes[0]("FIRN.LEN") == len(first) and nodes[1]("FIRN.LEN") == len(second)
    assert all(node.figure("closed_slots") == 0 for node in nodes)
    # The same again does no harm.
    assert "moved already" in move(nodes, 0, 999)


def test_closed_slots_stay_closed_until_they_are_opened(nodes):
    source = nodes[0]
    key = next(f"k{n}" for n in range(1000) if source("CLUSTER", "KEYSLOT", f"k{n}") < 1000)
    source("FIRN.SET", key, "1")
    source("FIRN.HANDOVER", "CLOSE", 0, 999)
    for _ in range(2):
        for command in [("FIRN.GET", key), ("FIRN.SET", key, "2"), ("FIRN.DEL", key), ("FIRN.MGET", key)]:
            with pytest.raises(redis.ResponseError, match="handed over"):
                source(*command)
        assert shown(source) == set()
        source.kill()
        source.start()
        until(lambda: b"cluster_state:ok" in source("CLUSTER", "INFO"))
    done = reshard(nodes, "--open", "0-999")
    assert done.returncode == 0, done.stderr
    assert source("FIRN.GET", key) == b"1" and source.figure("closed_slots") == 0


def test_a_move_that_was_interrupted_is_done_again(nodes):
    source, target = nodes
    client = client_of(nodes)
    for n in range(500):
        client.execute_command("FIRN.SET", f"k{n}", n)
    # As a tool leaves it that was killed when it had closed the slots, with an old value at the target.
    key = next(f"k{n}" for n in range(1000) if source("CLUSTER", "KEYSLOT", f"k{n}") < 1000)
    target("FIRN.HANDOVER", "CLOSE", 0, 999)
    target("FIRN.HANDOVER", "TAKE", key, b"\0old", f"{{{key}}}gone", b"\0old")
    source("FIRN.HANDOVER", "WATCH", 0, 999)
    source("FIRN.HANDOVER", "CLOSE", 0, 999)
    assert f"{{{key}}}gone".encode() not in shown(target)
    move(nodes, 0, 999)
    assert client.execute_command("FIRN.GET", key) == key[1:].encode()
    assert client.execute_command("FIRN.GET", f"{{{key}}}gone") is None
    with pytest.raises(redis.ResponseError, match="nobody watches"):
        source("FIRN.HANDOVER", "CHANGES", 10)
