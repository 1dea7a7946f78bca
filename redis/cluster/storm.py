"""Kills, failovers and reshardings of a cluster under load: see `run`."""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

import redis
from redis.cluster import RedisCluster
from redis.crc import key_slot
from servers import Server, until

NODE_TIMEOUT_MS = 2000
# Writes that one WAIT is for.
BATCH = 20
# A dead connection is noticed by its end; this is for a node that hangs.
PATIENCE_S = 20
RESHARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reshard")
TAKEN_BACK = (redis.RedisError, OSError)


class Cluster:
    def __init__(self, directory):
        self.servers = []
        for number in range(6):
            server = Server(
                os.path.join(directory, f"node{number}"), "--save", "", "--cluster-enabled", "yes",
                "--cluster-node-timeout", NODE_TIMEOUT_MS, "--cluster-replica-validity-factor", 0,
                "--repl-backlog-size", "64mb", module=["durability", "process"],
            )
            self.servers.append(server.start())
        addresses = [f"127.0.0.1:{server.port}" for server in self.servers]
        subprocess.run(
            ["redis-cli", "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes"],
            check=True, stdout=subprocess.DEVNULL,
        )
        self.settle()

    def by_port(self, port):
        return next(server for server in self.servers if server.port == port)

    def alive(self):
        return [server for server in self.servers if server.process.poll() is None]

    def roles(self):
        """Masters with their replicas, as the first node that answers sees them."""
        lines = [line.split() for line in self.view("NODES").decode().splitlines()]
        by_id = {line[0]: self.by_port(int(line[1].split("@")[0].rsplit(":")[-1])) for line in lines}
        owners = [line[0] for line in lines if "master" in line[2] and len(line) > 8]
        return {by_id[id]: [by_id[line[0]] for line in lines if line[3] == id] for id in owners}

    def view(self, what):
        for server in self.alive():
            try:
                return server("CLUSTER", what)
            except TAKEN_BACK:
                pass
        raise redis.ConnectionError("no node answers")

    def is_settled(self):
        for server in self.servers:
            info = server.client.info("replication")
            if b"cluster_state:ok" not in server("CLUSTER", "INFO"):
                return False
            if info["role"] == "slave" and info["master_link_status"] != "up":
                return False
            if info["role"] == "master" and info["connected_slaves"] < 1:
                return False
        return len(self.roles()) == 3

    def settle(self):
        until(self.is_settled, 240)


class Writer(threading.Thread):
    """Counts each of its keys up, and remembers what was acknowledged."""

    def __init__(self, cluster, number, keys, seed):
        super().__init__(daemon=True)
        self.cluster, self.chance = cluster, random.Random(seed)
        self.over = threading.Event()
        # All sent values of a key are 1 to `sent`; those up to `kept` were acknowledged.
        self.sent = {f"{number}:{key}": 0 for key in range(keys)}
        self.kept = dict.fromkeys(self.sent, 0)
        self.acknowledged = 0
        self.connections, self.owner = {}, {}

    def refresh(self):
        for first, last, master, *_ in self.cluster.view("SLOTS"):
            self.owner |= dict.fromkeys(range(first, last + 1), master[1])

    def client(self, port):
        if port not in self.connections:
            client = redis.Redis(port=port, socket_timeout=PATIENCE_S, single_connection_client=True, retry=None)
            client.response_callbacks.clear()
            self.connections[port] = client
        return self.connections[port]

    def run(self):
        keys = list(self.sent)
        while not self.over.is_set():
            by_owner = {}
            for key in self.chance.sample(keys, BATCH):
                by_owner.setdefault(self.owner.get(key_slot(key.encode())), []).append(key)
            for port, batch in by_owner.items():
                try:
                    if port is None or not self.write(port, batch):
                        self.refresh()
                except TAKEN_BACK:
                    self.connections.pop(port, None)
                    self.over.wait(0.05)
                    try:
                        self.refresh()
                    except TAKEN_BACK:
                        pass

    def write(self, port, batch):
        """Whether all of it was taken."""
        pipe = self.client(port).pipeline(transaction=False)
        values = {}
        for key in batch:
            self.sent[key] += 1
            values[key] = self.sent[key]
            pipe.execute_command("FIRN.SET", key, f"{key}={values[key]}")
        # One connection: WAIT is about what came before on it.
        pipe.execute_command("WAIT", 1, 1000)
        *answers, replicas = pipe.execute(raise_on_error=False)
        taken = [key for key, answer in zip(batch, answers) if answer == b"OK"]
        if isinstance(replicas, int) and replicas >= 1:
            for key in taken:
                self.kept[key] = max(self.kept[key], values[key])
            self.acknowledged += len(taken)
        return len(taken) == len(batch)


class Reader(threading.Thread):
    """Reads and writes by a cluster client, as programs do; checks what it reads."""

    def __init__(self, cluster, writers, seed):
        super().__init__(daemon=True)
        self.cluster, self.chance, self.over = cluster, random.Random(seed), threading.Event()
        self.keys = [key for writer in writers for key in writer.sent]
        self.read, self.wrong = 0, []

    def run(self):
        client = None
        while not self.over.is_set():
            try:
                client = client or RedisCluster(host="127.0.0.1", port=self.cluster.alive()[0].port, socket_timeout=PATIENCE_S)
                key = self.chance.choice(self.keys)
                value = client.execute_command("FIRN.GET", key)
                self.read += 1
                if value is not None and not value.startswith(f"{key}=".encode()):
                    self.wrong.append((key, value))
                client.execute_command("FIRN.INCRBY", "reader", 1)
            except (*TAKEN_BACK, IndexError, redis.exceptions.RedisClusterException):
                client = None
                self.over.wait(0.1)


def reshard(cluster, chance):
    """Moves a tenth of a master's slots to another one; whether it went through."""
    sides = chance.sample(list(cluster.roles()), 2)
    source, target = sides
    ids = {server: server("CLUSTER", "MYID").decode() for server in sides}
    ranges = [
        (first, last) for first, last, master, *_ in source("CLUSTER", "SLOTS") if master[2].decode() == ids[source]
    ]
    first, last = max(ranges, key=lambda slots: slots[1] - slots[0])
    last = first + (last - first) // 10
    command = [
        sys.executable, RESHARD, f"127.0.0.1:{source.port}", "--from", ids[source], "--to", ids[target],
        "--slots", f"{first}-{last}",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    print(f"reshard {source.port} to {target.port}: {done.stdout.strip()}{done.stderr.strip()}", flush=True)
    return done.returncode == 0


def storm(cluster, chance, kills, reshards):
    """Kills, restarts, fails over and reshards; how many kills."""
    killed, moved, tries = 0, 0, 0
    move_at = [kills * (number + 1) // (reshards + 1) for number in range(reshards)]
    while killed < kills:
        if tries < len(move_at) and killed >= move_at[tries]:
            cluster.settle()
            tries += 1
            moved += reshard(cluster, chance)
        roles = cluster.roles()
        masters = [server for server in roles if server.process.poll() is None]
        match chance.randrange(10):
            case 0 | 1 | 2 | 3 | 4 if masters:
                victims = [chance.choice(masters)]
            case 5 | 6 | 7:
                victims = [chance.choice(cluster.alive())]
            case 8 if masters:
                # Both sides of a shard: nobody can take over.
                master = chance.choice(masters)
                victims = [master, *roles[master]]
            case _:
                replicas = [server for some in roles.values() for server in some]
                try:
                    chance.choice(replicas)("CLUSTER", "FAILOVER")
                except TAKEN_BACK:
                    pass
                time.sleep(chance.uniform(0, 2))
                continue
        for victim in victims:
            if victim.process.poll() is None:
                victim.kill()
                killed += 1
        # Long enough for a failover, or too short for one.
        time.sleep(chance.choice([0, 0.3, 2 * NODE_TIMEOUT_MS / 1000, 3 * NODE_TIMEOUT_MS / 1000]))
        for server in cluster.servers:
            if server.process.poll() is not None:
                server.start()
        print(f"{killed} kills", flush=True)
        # Mostly whole again: then the next one takes an acknowledged write with it, if anything does.
        if chance.random() < 0.7:
            cluster.settle()
            time.sleep(chance.uniform(0.2, 1))
    return killed, moved


def judge(cluster, writers):
    """What was lost, and what nobody has written."""
    client = RedisCluster(host="127.0.0.1", port=cluster.servers[0].port, socket_timeout=60)
    lost, invented = [], []
    for writer in writers:
        for key, sent in writer.sent.items():
            found = client.execute_command("FIRN.GET", key)
            name, _, count = (found or f"{key}=0".encode()).decode().rpartition("=")
            if name != key or not count.isdigit() or int(count) > sent:
                invented.append((key, found, sent))
            elif int(count) < writer.kept[key]:
                lost.append((key, found, writer.kept[key]))
    # Nobody has keys that are another node's, and no key is shown twice.
    shown = {}
    for master, replicas in cluster.roles().items():
        everything = master.everything()
        for key in everything:
            assert key not in shown, f"{key} is shown by {shown[key]} and {master.port}"
            shown[key] = master.port
        assert master("FIRN.CHECK") == b"OK" and master.figure("effects_missed") == 0
        for replica in replicas:
            assert until(lambda: replica.everything() == everything), f"{replica.port} differs from {master.port}"
    unknown = set(shown) - {key.encode() for writer in writers for key in writer.sent} - {b"reader"}
    invented += [(key, None, 0) for key in unknown]
    return lost, invented


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true", help="for CI: about two minutes")
    parser.add_argument("--kills", type=int)
    parser.add_argument("--keys", type=int)
    parser.add_argument("--reshards", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    kills = asked.kills or (5 if asked.short else 60)
    keys = asked.keys or (500 if asked.short else 20_000)
    reshards = (1 if asked.short else 2) if asked.reshards is None else asked.reshards
    print(f"seed {asked.seed}", flush=True)
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="firn-cluster-") as directory:
        cluster = Cluster(directory)
        try:
            writers = [Writer(cluster, number, keys, asked.seed + number) for number in range(2)]
            reader = Reader(cluster, writers, asked.seed)
            for thread in (*writers, reader):
                thread.start()
            killed, moved = storm(cluster, chance, kills, reshards)
            cluster.settle()
            for thread in (*writers, reader):
                thread.over.set()
            for thread in (*writers, reader):
                thread.join()
            lost, invented = judge(cluster, writers)
            invented += reader.wrong
        finally:
            for server in cluster.servers:
                server.end()
    for what, found in (("lost", lost), ("invented", invented)):
        for example in found[:5]:
            print(what, *example)
    acknowledged = sum(writer.acknowledged for writer in writers)
    print(f"reshardings {moved} of {reshards}, reads by the cluster client {reader.read}")
    print(f"kills {killed}, acknowledged {acknowledged}, lost {len(lost)}, invented {len(invented)}")
    sys.exit(bool(lost or invented or moved < reshards or not reader.read))


if __name__ == "__main__":
    main()
