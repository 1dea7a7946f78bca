"""Random commands with random arguments, beside Redis' own with the same ones."""

import os
import random

import redis

WORDS = [
    b"NX", b"XX", b"GET", b"EX", b"PX", b"EXAT", b"PXAT", b"KEEPTTL", b"nx", b"MATCH", b"COUNT", b"0", b"1", b"-1", b"100000",
    b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"", b"*", b"[", b"\\", b"\0firn:position", b"\xff\0\r\n",
]
SAME = ["GET", "SET", "DEL", "EXISTS", "MGET", "MSET", "INCRBY", "GETDEL", "EXPIRE", "TTL"]
OWN = ["CAS", "SCAN", "LEN", "INFO", "SYNC", "CHECK", "REPLPUT", "REPLDEL"]


def argument(chance):
    match chance.randrange(4):
        case 0:
            return b"k%d" % chance.randrange(8)
        case 1:
            return str(chance.randrange(-20, 20)).encode()
        case 2:
            return chance.choice(WORDS)
        case _:
            return chance.randbytes(chance.choice([0, 1, 5, 300, 70_000]))


def command(chance):
    name = chance.choice(SAME)
    if name == "SET" and chance.random() < 0.8:
        options = [chance.choice(WORDS[:9]) for _ in range(chance.randrange(4))]
        arguments = [b"k%d" % chance.randrange(8), argument(chance)]
        for option in options:
            arguments.append(option)
            # Times in seconds or so far away that no key ends in between.
            if option.upper() in (b"EX", b"PX"):
                arguments.append(chance.choice([b"100000", b"200000", b"x", b"0", b"-1", b"9223372036854775807"]))
            elif option.upper() in (b"EXAT", b"PXAT"):
                arguments.append(chance.choice([b"1", b"9999999999999", b"0"]))
    else:
        arguments = [argument(chance) for _ in range(chance.randrange(5))]
    # A key of 64 KiB and more is Redis' alone; so is a short time, which may end between the two.
    if any(len(part) >= 65_000 for part in arguments):
        return None
    # Conditions of EXPIRE are Redis' alone.
    if name == "EXPIRE" and (len(arguments) > 2 or arguments[-1:] and arguments[-1].isdigit() and int(arguments[-1]) < 1000):
        return None
    return name, arguments


def answer(server, name, arguments):
    try:
        return server(name, *arguments)
    except redis.ResponseError as error:
        return str(error).replace("firn.", "").lower()


def test_random_commands_are_answered_as_redis_answers_them(make):
    seed = int(os.environ.get("FIRN_SEED", random.randrange(1 << 32)))
    print("FIRN_SEED", seed)
    chance = random.Random(seed)
    server = make("--save", "").start()
    for step in range(int(os.environ.get("FIRN_FUZZ", 6000))):
        drawn = command(chance)
        if drawn is None:
            continue
        name, arguments = drawn
        ours, theirs = answer(server, "FIRN." + name, arguments), answer(server, name, arguments)
        if name == "TTL" and isinstance(ours, int) and isinstance(theirs, int):
            assert abs(ours - theirs) <= 1, (step, arguments, ours, theirs)
        else:
            assert ours == theirs, (step, name, arguments, ours, theirs)
        if step % 1000 == 0:
            server.kill()
            server.start()
            # Redis' own keys are gone, ours are not.
            server("FLUSHALL")
            if keys := list(server.everything()):
                server("FIRN.DEL", *keys)
    keys = [b"k%d" % n for n in range(8)]
    assert server("FIRN.MGET", *keys) == server("MGET", *keys)
    assert server("FIRN.CHECK") == b"OK"


def test_no_arguments_end_the_server(make):
    seed = int(os.environ.get("FIRN_SEED", random.randrange(1 << 32)))
    print("FIRN_SEED", seed)
    chance = random.Random(seed)
    server = make("--save", "").start()
    replica = make("--save", "").start()
    replica.replicate(server)
    for _ in range(int(os.environ.get("FIRN_FUZZ", 6000)) // 2):
        name = chance.choice(SAME + OWN)
        answer(server, "FIRN." + name, [argument(chance) for _ in range(chance.randrange(6))])
    assert "panic" not in server.said() and server("PING") == b"PONG"
    assert server("FIRN.CHECK") == b"OK"
    assert replica.figure("effects_missed") == 0
