#!/usr/bin/python3
"""Calls the API from a program that has no database, under the very limits that the workers are under.

    outside.py URL REDIS_URL CALLS      (redis-py: Debian's python3-redis, or pip install redis)

Redis counts both (gen_durable.limiter = redis). What setup.sql allows is said here once more, for Redis does not know it, and
so is gen_durable.redis_lease. The scripts are the engine's own, in src/limiter/redis; each says in its first lines what its
keys and arguments are.
"""

import json
import pathlib
import sys
import threading
import time
import urllib.request

import redis

URL, REDIS_URL, CALLS = sys.argv[1], sys.argv[2], int(sys.argv[3])
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "src" / "limiter" / "redis"
LEASE = 30  # seconds
GATE, SLOTS = "gen_durable:gate:api", 3
RATE, BURST, TOKENS_A_SECOND = "gen_durable:rate:api", 15, 80 / 60
APART = 3  # seconds between two calls: 20 of the 80 a minute. Who asks first gets a token, so a share must be kept to

db = redis.Redis.from_url(REDIS_URL, socket_timeout=5)
common = (SCRIPTS / "common.lua").read_text(encoding="utf-8")
admit, look, renew, credit = (db.register_script(common + (SCRIPTS / f"{name}.lua").read_text(encoding="utf-8"))
                              for name in ("admit", "look", "renew", "credit"))


def ask(script, keys, *arguments):
    return script(["gen_durable:era", *keys], ["", LEASE * 1000000, *arguments])


def take():
    """A slot and a token: the slot's ticket, once both are there."""
    while True:
        try:
            # Two limits; one entry, which is under the first and the second, and of weight 1.
            (answer,) = ask(admit, [GATE, RATE], 2, "g", SLOTS, 0, "r", BURST, TOKENS_A_SECOND, 1, 2, 1)
            if answer > 0:
                return answer
            if answer == -1:  # no slot: nobody tells when one is free
                time.sleep(0.1)
            else:  # too few tokens: databases ask at the instant at which one is there, so a program that comes later gets few
                time.sleep(max(0, 1 - float(ask(look, [RATE], "r", BURST, TOKENS_A_SECOND))) / TOKENS_A_SECOND)
        except (redis.ConnectionError, redis.TimeoutError):
            time.sleep(0.5)  # what is not counted is not admitted


def keep(ticket, ended):
    """Renews the slot three times in a lease, for as long as the call runs."""
    while not ended.wait(LEASE / 3):
        try:
            ask(renew, [GATE], ticket)
        except (redis.ConnectionError, redis.TimeoutError):
            pass


def give_back(ticket):
    try:
        ask(credit, [GATE], ticket)
    except (redis.ConnectionError, redis.TimeoutError):
        pass  # it comes back at the end of its lease


for n in range(CALLS):
    begun = time.monotonic()
    ticket = take()
    ended = threading.Event()
    keeper = threading.Thread(target=keep, args=(ticket, ended), daemon=True)
    keeper.start()
    try:
        request = urllib.request.Request(URL, json.dumps({"outside": n}).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            print(json.load(answer), flush=True)
    finally:
        ended.set()
        keeper.join()  # a renewal after the return would hold the slot anew
        give_back(ticket)
    time.sleep(max(0, begun + APART - time.monotonic()))
