"""Replicas: full and partial copies, restarts, promotions."""

import threading

import pytest
from servers import caught_up, until


class Writer(threading.Thread):
    """Changes keys until it is told to stop."""

    def __init__(self, server, keys):
        super().__init__(daemon=True)
        self.server, self.keys, self.over, self.count = server, keys, threading.Event(), 0
        self.start()

    def run(self):
        while not self.over.is_set():
            pipe = self.server.client.pipeline(transaction=False)
            for _ in range(50):
                self.count += 1
                key = f"w{self.count * 7919 % self.keys}"
                match self.count % 5:
                    case 0:
                        pipe.execute_command("FIRN.DEL", key)
                    case 1:
                        pipe.execute_command("FIRN.INCRBY", "count", 1)
                    case 2:
                        pipe.execute_command("FIRN.MSET", key, self.count, key + "x", self.count)
                    case _:
                        pipe.execute_command("FIRN.SET", key, self.count, "EX", 10_000)
            pipe.execute()

    def stop(self):
        self.over.set()
        self.join()


def fill(server, count):
    for start in range(0, count, 1000):
        pipe = server.client.pipeline(transaction=False)
        for n in range(start, start + 1000):
            pipe.execute_command("FIRN.SET", f"k{n}", f"value {n} " + "x" * 90)
        pipe.execute()


def equal(master, *replicas):
    caught_up(master, *replicas)
    everything = master.everything()
    for replica in replicas:
        assert replica.everything() == everything
        assert replica.figure("effects_missed") == 0
        assert replica("FIRN.CHECK") == b"OK"
    return everything


@pytest.mark.parametrize("diskless", ["yes", "no"])
@pytest.mark.parametrize("load", ["disabled", "on-empty-db"])
def test_a_full_copy_beside_writers(make, diskless, load):
    master = make("--save", "", "--repl-diskless-sync", diskless).start()
    fill(master, 20_000)
    writer = Writer(master, 5000)
    replica = make("--save", "", "--repl-diskless-load", load).start()
    replica("FIRN.SET", "of the replica", "goes")
    replica.replicate(master)
    until(lambda: writer.count > 3000)
    writer.stop()
    everything = equal(master, replica)
    assert b"of the replica" not in everything and len(everything) > 20_000
    assert replica.figure("state") == "whole"


def test_options_arrive_as_what_they_did(make):
    master, replica = make("--save", "").start(), make("--save", "").start()
    replica.replicate(master)
    master("FIRN.SET", "a", "1", "EX", 1000)
    master("FIRN.SET", "a", "2", "KEEPTTL", "GET")
    master("FIRN.SET", "b", "1", "NX")
    master("FIRN.SET", "b", "2", "NX")
    master("FIRN.INCRBY", "b", "41")
    master("FIRN.CAS", "b", "42", "43")
    master("FIRN.EXPIRE", "b", "500")
    master("EVAL", "redis.call('FIRN.SET', KEYS[1], 'script') return redis.call('FIRN.MSET', KEYS[2], 1, KEYS[3], 2)", 3, "s", "t", "u")
    master("FIRN.GETDEL", "t")
    equal(master, replica)
    assert 990 < replica("FIRN.TTL", "a") <= 1000 and 490 < replica("FIRN.TTL", "b") <= 500
    # A replica shows nothing that is over, and removes nothing by itself.
    master("FIRN.SET", "c", "1", "PX", 1)
    until(lambda: master("FIRN.LEN") == replica("FIRN.LEN") == 4)


def test_a_replica_that_was_away_gets_what_it_missed(make):
    master = make("--save", "", "--repl-backlog-size", "100mb").start()
    replica = make("--save", "").start()
    replica.replicate(master)
    fill(master, 2000)
    caught_up(master, replica)
    copies = master.info("sync_full")
    replica.stop("save")
    fill(master, 4000)
    master("FIRN.DEL", "k0", "k1")
    replica.start("--replicaof", "127.0.0.1", master.port)
    until(lambda: replica.info("master_link_status") == "up")
    equal(master, replica)
    assert master.info("sync_full") == copies and master.info("sync_partial_ok") >= 1


def test_a_killed_replica_skips_what_it_has(make):
    master = make("--save", "", "--repl-backlog-size", "100mb").start()
    replica = make("--save", "").start()
    replica.replicate(master)
    fill(master, 1000)
    caught_up(master, replica)
    replica("SAVE")
    copies = master.info("sync_full")
    master("FIRN.SET", "k0", "older")
    master("FIRN.SET", "k0", "newer")
    fill(master, 3000)
    caught_up(master, replica)
    replica.kill()
    # Its snapshot is older than its pool: what lies between comes again.
    replica.start("--replicaof", "127.0.0.1", master.port)
    until(lambda: replica.info("master_link_status") == "up")
    equal(master, replica)
    assert master.info("sync_full") == copies
    assert replica.figure("effects_skipped") == 3002


def test_a_killed_master_does_not_leave_replicas_behind(make):
    master = make("--save", "").start()
    replica = make("--save", "").start()
    replica.replicate(master)
    fill(master, 1000)
    caught_up(master, replica)
    master("SAVE")
    # The replica is where the snapshot is. What follows reaches nobody.
    replica("REPLICAOF", "NO", "ONE")
    replica.kill()
    master("FIRN.SET", "unseen", "1")
    master.kill()
    master.start()
    replica.start("--replicaof", "127.0.0.1", master.port)
    until(lambda: replica.info("master_link_status") == "up")
    assert replica("FIRN.GET", "unseen") == b"1"
    equal(master, replica)
    assert "ahead of the snapshot" in master.said()


def test_promotion_and_return(make):
    first, second, third = (make("--save", "").start() for _ in range(3))
    second.replicate(first)
    third.replicate(first)
    fill(first, 1000)
    assert first("WAIT", 2, 60_000) == 2
    first.kill()
    second("REPLICAOF", "NO", "ONE")
    second("FIRN.SET", "after", "1")
    third.replicate(second)
    equal(second, third)
    copied = second.info("sync_full")
    assert copied == 0, "the third goes on from where it was"
    first.start("--replicaof", "127.0.0.1", second.port)
    until(lambda: first.info("master_link_status") == "up")
    everything = equal(second, first, third)
    assert len(everything) == 1001


def test_a_chain(make):
    first, second, third = (make("--save", "").start() for _ in range(3))
    second.replicate(first)
    third.replicate(second)
    writer = Writer(first, 1000)
    until(lambda: writer.count > 2000)
    writer.stop()
    caught_up(first, second)
    equal(first, second)
    assert until(lambda: third.everything() == first.everything())


def test_a_master_that_ends_in_order_need_not_be_copied(make):
    master = make("--save", "", "--repl-backlog-size", "10mb").start()
    replica = make("--save", "").start()
    replica.replicate(master)
    fill(master, 1000)
    caught_up(master, replica)
    master.stop("save")
    master.start()
    until(lambda: replica.info("master_link_status") == "up")
    master("FIRN.SET", "after", "1")
    equal(master, replica)
    assert master.info("sync_full") == 0 and master.info("sync_partial_ok") == 1
