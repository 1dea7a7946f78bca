"""``python -m firndex`` does what the command ``firndex`` does: arguments, streams, exit statuses, signals."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios

import pytest

import firndex
from firndex import Store

COMMAND = [sys.executable, "-m", "firndex"]


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, **options)


def redirected(redirection, *arguments):
    """As a shell runs it that was told to redirect its streams so."""
    return subprocess.run(["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *arguments], capture_output=True)


class Reading:
    """A command that reads its stdin."""

    def __init__(self, *command):
        self.end, self.pipe = os.pipe()
        self.process = subprocess.Popen(command, stdin=self.end, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def feed(self, text):
        """Returns once the command has taken all of it, and waits for more."""
        os.write(self.pipe, text)
        left = bytearray(b"?   ")
        while any(left):
            fcntl.ioctl(self.end, termios.FIONREAD, left)

    def ended(self):
        os.close(self.end)
        try:
            _, stderr = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
        return self.process.returncode, stderr.decode()


def test_pairs_go_in_and_out_as_bytes():
    assert run("create", "a.firn").returncode == 0
    assert run("put", "a.firn", b"K\xf6ln", "-", input=b"\xff\0").returncode == 0
    got = run("get", "a.firn", b"K\xf6ln")
    assert (got.returncode, got.stdout, got.stderr) == (0, b"\xff\0", b"")
    with Store("a.firn", "w") as store:
        assert dict(store) == {b"K\xf6ln": b"\xff\0"}


def test_exit_statuses():
    Store("a.firn").close()
    assert run("del", "a.firn", "absent").returncode == 1
    missing = run("stat", "missing.firn")
    assert (missing.returncode, missing.stdout) == (2, b"")
    assert missing.stderr.startswith(b"firndex: ") and b"\nhint: " in missing.stderr
    unknown = run("gett", "a.firn")
    assert unknown.returncode == 2 and b"Usage: firndex" in unknown.stderr
    told = run("help", "get")
    assert told.returncode == 0 and b"Usage: firndex get" in told.stdout


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_an_error_where_it_is_needed(closed):
    with Store("a.firn") as store:
        store["apple"] = b"red"
    found = redirected(closed, "get", "a.firn", "apple")
    lost = ">&-" in closed.split()
    assert (found.returncode, found.stdout) == ((2, b"") if lost else (0, b"red"))
    stored = redirected(closed, "put", "a.firn", "apple", "-")
    assert stored.returncode == (2 if "<&-" in closed else 0)
    assert redirected(closed, "get", "a.firn", "absent").returncode == 1
    with Store("a.firn") as store:
        assert store.check().is_sound
        assert store["apple"] == (b"red" if "<&-" in closed else b"")


@pytest.mark.parametrize("stream", [1, 2])
def test_no_file_has_the_number_of_a_closed_stream(stream):
    Store("a.firn").close()
    load = Reading("sh", "-c", f'exec "$@" {stream}>&-', "sh", *COMMAND, "load", "a.firn", "-")
    load.feed(b"key,value\napple,red\n")
    assert os.readlink(f"/proc/{load.process.pid}/fd/{stream}") == os.devnull
    os.close(load.pipe)
    assert load.ended()[0] == 0


def test_a_reader_that_went_away_ends_it_by_sigpipe():
    Store("a.firn").close()
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([*COMMAND, "stat", "a.firn"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (-signal.SIGPIPE, b"")


def test_ctrl_c_ends_a_command():
    Store("a.firn").close()
    put = Reading(*COMMAND, "put", "a.firn", "apple", "-")
    put.feed(b"red")
    put.process.send_signal(signal.SIGINT)
    assert put.ended() == (-signal.SIGINT, "")
    os.close(put.pipe)
    with Store("a.firn") as store:
        assert not store


def test_ctrl_c_ends_a_load_with_what_is_stored():
    Store("a.firn").close()
    load = Reading(*COMMAND, "load", "a.firn", "-")
    load.feed(b"key,value\napple,red\n")
    load.process.send_signal(signal.SIGINT)
    status, stderr = load.ended()
    assert status == -signal.SIGINT
    assert "interrupted: all records before line 3 are stored" in stderr
    os.close(load.pipe)
    assert firndex.inspect("a.firn")["clean"]
    with Store("a.firn") as store:
        assert dict(store) == {b"apple": b"red"}


def test_what_is_to_ignore_ctrl_c_ignores_it():
    Store("a.firn").close()
    put = Reading("sh", "-c", 'trap "" INT; exec "$@"', "sh", *COMMAND, "put", "a.firn", "apple", "-")
    put.feed(b"red")
    put.process.send_signal(signal.SIGINT)
    put.feed(b"der")
    os.close(put.pipe)
    assert put.ended() == (0, "")
    with Store("a.firn") as store:
        assert store["apple"] == b"redder"


@pytest.mark.parametrize("options", [[], ["-I", "-X", "utf8"]])
def test_the_demo_starts_its_writer_again_and_again(options, tmp_path):
    for number in range(20):
        (tmp_path / f"{number}.bin").write_bytes(os.urandom(100_000))
    demo = [sys.executable, *options, "-m", "firndex", "demo", ".", "--json", "--kills", "2"]
    done = subprocess.run(demo, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kills"] == 2
