"""Servers for tests: started, killed, restarted, asked. Nothing waits for a fixed time."""

import os
import signal
import socket
import subprocess
import time

import redis

MODULE = os.environ["FIRN_MODULE"]
BINARY = os.environ.get("REDIS_SERVER", "redis-server")
# For what takes milliseconds on an idle machine, and much longer on a busy one.
DEADLINE_S = int(os.environ.get("FIRN_DEADLINE_S", 120))


def until(what, deadline_s=DEADLINE_S):
    """The first true result of `what`, which may fail meanwhile."""
    end = time.monotonic() + deadline_s
    last = None
    while time.monotonic() < end:
        try:
            last = what()
            if last:
                return last
        except (redis.RedisError, OSError) as error:
            last = error
        time.sleep(0.02)
    raise AssertionError(f"it did not happen within {deadline_s} s; the last answer was {last!r}")


def free_port(used=set()):
    """A port that nobody has, with room for a cluster's bus, which is 10,000 above."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port < 55000 and port not in used:
            used.add(port)
            return port


class Server:
    """A server with the module, in a directory of its own."""

    def __init__(self, directory, *options, module=(), port=None):
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        self.port = port or free_port()
        self.options = [str(option) for option in options]
        self.module = [str(argument) for argument in module]
        self.process = None
        self.client = None

    def start(self, *more, wait=True):
        command = [
            BINARY, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory),
            "--enable-debug-command", "local", "--repl-diskless-sync-delay", "0",
            "--loadmodule", MODULE, *self.module, *self.options, *map(str, more),
        ]
        self.log = open(os.path.join(self.directory, "log"), "a+")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.client = redis.Redis(port=self.port, socket_timeout=DEADLINE_S)
        # Answers as the server gives them.
        self.plain = redis.Redis(port=self.port, socket_timeout=DEADLINE_S, protocol=2)
        self.plain.response_callbacks.clear()
        if wait:
            until(self.is_ready)
        return self

    def is_ready(self):
        assert self.process.poll() is None, f"the server has ended:\n{self.said()[-2000:]}"
        return self.client.ping()

    def said(self):
        with open(os.path.join(self.directory, "log")) as log:
            return log.read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.client.close()
        self.plain.close()

    def stop(self, how="nosave"):
        """Ends it in order."""
        try:
            self.client.execute_command("SHUTDOWN", how)
        except redis.ConnectionError:
            pass
        self.process.wait(DEADLINE_S)
        self.client.close()
        self.plain.close()

    def end(self):
        if self.process and self.process.poll() is None:
            self.kill()

    def __call__(self, *command):
        return self.plain.execute_command(*command)

    def info(self, field):
        return self.client.info("everything")[field]

    def figure(self, name):
        return self.client.info("firn")[f"firn_{name}"]

    def replicate(self, master):
        self("REPLICAOF", "127.0.0.1", master.port)
        until(lambda: self.info("master_link_status") == "up")

    def everything(self):
        """All keys with values and ends."""
        keys, cursor = [], b"0"
        while True:
            cursor, some = self("FIRN.SCAN", cursor, "COUNT", 10_000)
            keys += some
            if cursor == b"0":
                break
        assert len(keys) == len(set(keys)), "a scan has shown a key twice"
        pipe = self.plain.pipeline(transaction=False)
        # A replica of a cluster answers then; where there is no cluster it is an error.
        pipe.execute_command("READONLY")
        for key in keys:
            pipe.execute_command("FIRN.GET", key)
        _, *values = pipe.execute(raise_on_error=False)
        if errors := [value for value in values if isinstance(value, Exception)]:
            raise errors[0]
        return {key: value for key, value in zip(keys, values) if value is not None}


def caught_up(master, *replicas):
    """Waits until the replicas have all that the master has sent."""
    offset = master.info("master_repl_offset")

    def is_there(replica):
        info = replica.client.info("replication")
        return info["master_link_status"] == "up" and info["slave_repl_offset"] >= offset

    for replica in replicas:
        until(lambda: is_there(replica))
