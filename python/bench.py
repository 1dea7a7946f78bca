"""Measures stores beside other maps that outlive the process, and tables beside the Rust library, in one run.

    python bench.py [--pairs N] [--rounds N] [--dir DIR] [--seed S] [--cpu] [--rust]

Keys are 16 random bytes, values 100 bytes. Each contender stores all pairs, looks each one up in another order, and is
opened again after a process that stored half of them was killed. Per row the best of the rounds counts; contenders take
turns within a round, so that a busy machine slows all of them. No contender is asked to wait for the disk: each keeps
what it wrote when its process is killed, as far as it does. Contenders that are not installed are left out:

    pip install lmdb diskcache rocksdict numpy

`--cpu` counts processor time, of all threads of the process, in place of time: for a machine that is busy with other
things. `--rust` also runs `cargo run --release --example batch`, which does the same batches in Rust.
"""

import argparse
import importlib.util
import os
import random
import shelve
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import firndex

VALUE_BYTES = 100
#: What rates are relative to.
clock = time.perf_counter
#: How often the batches of arrays are tried; as in the Rust program.
BATCH_ROUNDS = 10
#: Pairs of one transaction, where there are any.
TRANSACTION = 1000


class Firndex:
    """Single calls."""

    name = "firndex.Store"
    share = 1

    def open(self, path):
        self.store = firndex.Store(path)

    def put(self, keys, value):
        store = self.store
        for key in keys:
            store[key] = value

    def get(self, keys):
        store = self.store
        for key in keys:
            store[key]

    def close(self):
        self.store.close()


class Batched(Firndex):
    name = "firndex.Store, put_many and get_many of 1,000"

    def put(self, keys, value):
        for begin in range(0, len(keys), TRANSACTION):
            self.store.put_many([(key, value) for key in keys[begin : begin + TRANSACTION]])

    def get(self, keys):
        for begin in range(0, len(keys), TRANSACTION):
            self.store.get_many(keys[begin : begin + TRANSACTION])


class Dict(Firndex):
    """The ceiling; nothing survives."""

    name = "dict"

    def open(self, path):
        self.store = {}

    def close(self):
        pass


class Lmdb:
    """Without syncs, and with a map that is written directly: the fastest that it has."""

    name = "lmdb, transactions of 1,000"
    share = 1

    def open(self, path):
        import lmdb

        self.environment = lmdb.open(path, map_size=1 << 33, sync=False, metasync=False, writemap=True, map_async=True)

    def put(self, keys, value):
        for begin in range(0, len(keys), TRANSACTION):
            with self.environment.begin(write=True) as transaction:
                for key in keys[begin : begin + TRANSACTION]:
                    transaction.put(key, value)

    def get(self, keys):
        with self.environment.begin() as transaction:
            get = transaction.get
            for key in keys:
                get(key)

    def close(self):
        self.environment.close()


class Sqlite:
    name = "sqlite3, transactions of 1,000"
    share = 4

    def open(self, path):
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute("CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def put(self, keys, value):
        for begin in range(0, len(keys), TRANSACTION):
            self.connection.execute("BEGIN")
            for key in keys[begin : begin + TRANSACTION]:
                self.connection.execute("INSERT OR REPLACE INTO pairs VALUES (?, ?)", (key, value))
            self.connection.execute("COMMIT")

    def get(self, keys):
        for key in keys:
            self.connection.execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()

    def close(self):
        self.connection.close()


class Shelve:
    """With the `dbm` that the interpreter has."""

    share = 20

    @property
    def name(self):
        import dbm

        self.open(os.path.join(tempfile.mkdtemp(), "probe"))
        module = type(self.shelf.dict).__module__
        self.close()
        return f"shelve with {module if module != 'builtins' else dbm._defaultmod.__name__}"

    def open(self, path):
        self.shelf = shelve.open(path)

    def put(self, keys, value):
        for key in keys:
            self.shelf[key.hex()] = value

    def get(self, keys):
        for key in keys:
            self.shelf[key.hex()]

    def close(self):
        self.shelf.close()


class Diskcache:
    name = "diskcache"
    share = 50

    def open(self, path):
        import diskcache

        self.cache = diskcache.Cache(path, size_limit=1 << 40)

    def put(self, keys, value):
        for key in keys:
            self.cache[key] = value

    def get(self, keys):
        for key in keys:
            self.cache[key]

    def close(self):
        self.cache.close()


class Rocksdict:
    name = "rocksdict"
    share = 4

    def open(self, path):
        import rocksdict

        self.db = rocksdict.Rdict(path, rocksdict.Options(raw_mode=True))

    def put(self, keys, value):
        for key in keys:
            self.db[key] = value

    def get(self, keys):
        for key in keys:
            self.db[key]

    def close(self):
        self.db.close()


CONTENDERS = [Dict, Firndex, Batched, Lmdb, Sqlite, Rocksdict, Shelve, Diskcache]
NEEDS = {Lmdb: "lmdb", Diskcache: "diskcache", Rocksdict: "rocksdict"}


def rate(call, *arguments):
    """Operations a second."""
    began = clock()
    call(*arguments)
    return len(arguments[0]) / (clock() - began)


def opened_after_kill(kind, path, keys, value):
    """Milliseconds until a look-up is answered, in a process of its own, after the one before was killed."""
    writer = os.fork()
    if writer == 0:
        contender = kind()
        contender.open(path)
        contender.put(keys, value)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(writer, 0)
    code = f"""if True:
        import sys, time
        sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
        import bench
        contender = bench.{kind.__name__}()
        began = time.perf_counter()
        contender.open({path!r})
        try:
            contender.get([{keys[0]!r}])
        except KeyError:
            print("lost")
        else:
            print((time.perf_counter() - began) * 1000)
    """
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = (told.stdout.split() or ["failed"])[-1]
    return float(last) if last.replace(".", "").isdigit() else last


def stores(arguments):
    kinds = [kind for kind in CONTENDERS if importlib.util.find_spec(NEEDS.get(kind, "os"))]
    best = {kind: {} for kind in kinds}
    for round_number in range(arguments.rounds):
        for kind in kinds:
            # Slow ones store fewer pairs, so that the run ends.
            pairs = max(arguments.pairs // kind.share, 1000)
            source = random.Random(arguments.seed)
            keys = [source.randbytes(16) for _ in range(pairs)]
            looked_up = source.sample(keys, len(keys))
            value = source.randbytes(VALUE_BYTES)
            work = tempfile.mkdtemp(dir=arguments.dir)
            contender = kind()
            contender.open(os.path.join(work, "pairs"))
            found = {"put": rate(contender.put, keys, value), "get": rate(contender.get, looked_up)}
            found["overwrite"] = rate(contender.put, looked_up, value)
            contender.close()
            for what, figure in found.items():
                best[kind][what] = max(figure, best[kind].get(what, 0))
            if kind is not Dict and round_number == 0:
                best[kind]["open"] = opened_after_kill(kind, os.path.join(work, "killed"), keys[: pairs // 2], value)
            shutil.rmtree(work)
    second = "second of processor time" if arguments.cpu else "second"
    print(f"Thousands of operations a {second}, in {arguments.dir}; slow contenders store fewer pairs\n")
    print("| | pairs | put | get | overwrite | opened after kill -9, ms |\n|---|---|---|---|---|---|")
    for kind in kinds:
        figures, pairs = best[kind], max(arguments.pairs // kind.share, 1000)
        opened = figures.get("open", "–")
        opened = f"{opened:,.1f}" if isinstance(opened, float) else opened
        rates = " | ".join(f"{figures[what] / 1000:,.0f}" for what in ("put", "get", "overwrite"))
        print(f"| {kind().name} | {pairs:,} | {rates} | {opened} |")
    print()


def tables(arguments):
    """By the clock, which the Rust program goes by, too."""
    global clock

    import numpy

    clock = time.perf_counter
    pairs = 1_000_000
    random_numbers = numpy.random.default_rng(arguments.seed)
    keys = random_numbers.integers(0, 1 << 63, pairs)
    values = random_numbers.integers(0, 1 << 63, pairs)
    best = {}
    for _ in range(BATCH_ROUNDS):
        work = tempfile.mkdtemp(dir=arguments.dir)
        with firndex.Table(os.path.join(work, "table"), key="i8", value="i8", capacity=pairs) as table:
            found = {"put_many": rate(table.put_many, keys, values), "get_many": rate(table.get_many, keys)}
            found["overwrite"] = rate(table.put_many, keys, values)
        shutil.rmtree(work)
        best = {what: max(figure, best.get(what, 0)) for what, figure in found.items()}
    print("| numpy, a batch of 1,000,000 pairs of 16 bytes | millions a second |\n|---|---|")
    for what, figure in best.items():
        print(f"| Table.{what} | {figure / 1e6:.1f} |")
    print()
    if arguments.rust:
        here = os.path.dirname(os.path.abspath(__file__))
        subprocess.run(
            ["cargo", "run", "--quiet", "--release", "--example", "batch", "--", arguments.dir], cwd=here, check=True
        )


def imports():
    """Milliseconds that importing the package takes, beyond what the interpreter takes."""
    name = clock.__name__
    code = f"import time; began = time.{name}(); import firndex; print((time.{name}() - began) * 1000)"
    taken = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(10)]
    print(f"import firndex: {min(taken):.1f} ms\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--rust", action="store_true")
    arguments = parser.parse_args()
    if arguments.cpu:
        global clock
        clock = time.process_time
    imports()
    stores(arguments)
    if importlib.util.find_spec("numpy"):
        tables(arguments)


if __name__ == "__main__":
    main()
