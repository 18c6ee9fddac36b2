#!/usr/bin/python3
"""The example of an API with limits (examples/api), as its README has it, with a window that is short enough for a test.

Connects by the environment (PGHOST, PGPORT, PGUSER, PGDATABASE) to a database in which the extension can be created, and
prints TAP. The ledger is the API's own: it refuses and counts what is too much. A worker is killed in the middle of a call.
Rules: GD-093, GD-095, GD-117, GD-136; D-2, D-12.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

try:
    import psycopg
except ImportError:
    print("1..0 # SKIP psycopg 3 is not installed")
    sys.exit(0)

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "api"
DEADLINE = 60
CALLS = 70
COUNT = 0
FAILED = 0
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def check(good, what, detail=None):
    """One TAP line; what was got is told when it is wrong."""
    global COUNT, FAILED
    COUNT += 1
    print(f"{'ok' if good else 'not ok'} {COUNT} - {what}", flush=True)
    if not good:
        FAILED += 1
        print(f"#   got {detail!r}", flush=True)


def start_api(*options):
    """The API on a free port, and the URL that it says."""
    program = subprocess.Popen([EXAMPLE / "api.py", "0", *options], stdout=subprocess.PIPE, text=True)
    return program, program.stdout.readline().strip()


def stats(url):
    with OPENER.open(url.replace("/send", "/stats"), timeout=DEADLINE) as answer:
        return json.load(answer)


def post(url, answers):
    try:
        with OPENER.open(urllib.request.Request(url, b"{}"), timeout=DEADLINE) as answer:
            answers.append(answer.status)
    except urllib.error.HTTPError as error:
        answers.append(error.code)


def test_api():
    """It does refuse: more at once than may be, and more in its window."""
    for options, want in ((("--at-once", "2", "--takes", "1"), 2), (("--calls", "3", "--at-once", "100", "--takes", "0"), 3)):
        program, url = start_api(*options)
        answers = []
        threads = [threading.Thread(target=post, args=(url, answers)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(sorted(answers) == [200] * want + [429] * (5 - want), f"the API with {' '.join(options)} lets {want} of 5 in", answers)
        check(stats(url)["refused"] == 5 - want, "and counts the rest", stats(url))
        program.kill()
        program.wait()


def test_example(conn):
    def one(query, *parameters):
        return conn.execute(query, parameters).fetchone()[0]

    def until(what, query):
        end = time.monotonic() + DEADLINE
        while not one(query) and time.monotonic() < end:
            time.sleep(0.02)
        check(one(query), what, conn.execute("SELECT status, blocked_on, count(*) FROM gen_durable.instances GROUP BY 1, 2").fetchall())

    # 40 in any two seconds: a burst of 8, and 12 a second. What is left over is for calls that a busy machine holds up.
    setup = (EXAMPLE / "setup.sql").read_text(encoding="utf-8")
    quick = setup.replace("allowed => 80, period => '1 min', burst => 15", "allowed => 12, period => '1 s', burst => 8")
    check(setup != quick, "the example's limits are those that the test makes quicker")
    conn.execute("SET client_min_messages = warning")
    conn.execute("CREATE EXTENSION IF NOT EXISTS gen_durable")
    conn.execute("TRUNCATE gen_durable.instances CASCADE")
    conn.execute(quick)
    api, url = start_api("--calls", "40", "--seconds", "2", "--at-once", "3", "--takes", "0.1")
    options = "-c gen_durable.lease_ttl=2s -c gen_durable.poll_interval=100ms -c gen_durable.max_poll_interval=100ms"
    environment = {**os.environ, "PGOPTIONS": options, "no_proxy": "127.0.0.1"}
    workers = [subprocess.Popen([EXAMPLE / "worker.py", f"w{n}", url], env=environment) for n in range(6)]
    try:
        one("""SELECT count(*) FROM gen_durable.insert_all('call', (SELECT jsonb_agg(jsonb_build_object('state', jsonb_build_object('n', n),
            'rate_limit', 'api', 'concurrency_key', 'api')) FROM generate_series(1, %s) n))""", CALLS)
        until("calls are made", "SELECT count(*) >= 10 FROM gen_durable.instances WHERE status = 'done'")
        victim = None
        while victim is None:
            victim = conn.execute("SELECT locked_by FROM gen_durable.instances WHERE status = 'executing' LIMIT 1").fetchone()
        workers[int(victim[0][1:])].send_signal(signal.SIGKILL)
        # Its lease ends by itself where there is a maintainer; here tick() is called, as the README says.
        until("all calls are made, though a worker was killed in one",
              f"SELECT (SELECT count(*) FROM gen_durable.tick()) = 1 AND count(*) = {CALLS} FROM gen_durable.instances WHERE status = 'done'")
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
    seen = stats(url)
    api.kill()
    api.wait()
    check(seen["refused"] == 0, "the API had nothing to refuse", seen)
    check(seen["served"] >= CALLS, "and served every call", seen)
    check(seen["most_at_once"] == 3, "three at once", seen)
    check(20 <= seen["most_in_a_window"] <= 40, "and many in a window", seen)
    check(one("SELECT count(*) FROM gen_durable.instances WHERE result ->> 'sent' IS NOT NULL") == CALLS, "each result is kept")
    print(f"# {seen}")


def main():
    test_api()
    with psycopg.connect("", autocommit=True) as conn:
        test_example(conn)
    print(f"1..{COUNT}")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
