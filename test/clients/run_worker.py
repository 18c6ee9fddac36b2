#!/usr/bin/python3
"""The worker of docs/run-store.md, as it stands there, in what its guide says of it.

Connects by the environment (PGHOST, PGPORT, PGUSER, PGDATABASE) to a database in which the extension can be created, and
prints TAP. Replaced in the program are its times, and the step, which waits by an advisory lock until the test lets it
go on, or raises, where the document says so. Rules: DK-071, DK-073, DK-075, DK-100, DK-101, DK-130, DK-131; D-20.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

try:
    import psycopg
except ImportError:
    print("1..0 # SKIP psycopg 3 is not installed")
    sys.exit(0)

DEADLINE = 30
GATE = 4712
COUNT = 0
FAILED = 0


def check(good, what, detail=None):
    """One TAP line; what was got is told when it is wrong."""
    global COUNT, FAILED
    COUNT += 1
    print(f"{'ok' if good else 'not ok'} {COUNT} - {what}", flush=True)
    if not good:
        FAILED += 1
        print(f"#   got {detail!r}", flush=True)


def guide():
    return (pathlib.Path(__file__).resolve().parents[2] / "docs" / "run-store.md").read_text(encoding="utf-8")


def program():
    """The guide's program, with short times, and steps that stop at the gate or raise."""
    text = re.search(r"^```python\n(.*?)^```", guide(), re.M | re.S).group(1)
    for line, instead in (
        ('TTL, BEAT, ATTEMPTS = "1 minute", 20, 5', 'TTL, BEAT, ATTEMPTS = "1 second", 0.2, 2'),
        ("run_wait('10 s')", "run_wait('100 ms')"),
        (
            '    what = document["left"].pop(0)\n',
            '    what = document["left"].pop(0)\n'
            '    if what == "gate":\n'
            f'        gate.execute("SELECT pg_advisory_lock_shared({GATE}), pg_advisory_unlock_shared({GATE})")\n'
            '    if what == "raise":\n'
            "        raise ValueError(what)\n",
        ),
        ("stopping = waiting = False\n\n", 'stopping = waiting = False\ngate = psycopg.connect("", autocommit=True)\n\n'),
    ):
        if text.count(line) != 1:
            raise SystemExit(f"Bail out! the guide's worker has no line {line!r}, or more than one")
        text = text.replace(line, instead)
    return text


class Test:
    """One database, one worker at a time."""

    def __init__(self, conn):
        self.conn = conn
        self.worker = None

    def one(self, query, *parameters):
        return self.conn.execute(query, parameters).fetchone()[0]

    def until(self, query, *parameters):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            if self.one(query, *parameters):
                return True
            if self.worker is not None and self.worker.poll() is not None:
                return False
            time.sleep(0.02)
        return False

    def insert(self, name, *steps):
        left = ", ".join(f'"{step}"' for step in steps)
        self.one("SELECT run_id FROM gen_durable.run_insert('tenant:t', %s, 'g', 'h', %s, now())", name, f'{{"left": [{left}]}}'.encode())

    def start(self):
        self.worker = subprocess.Popen([sys.executable, "-u", "-c", program()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ended(self):
        """How it ended, and what it said."""
        try:
            said = self.worker.communicate(timeout=DEADLINE)[0]
        except subprocess.TimeoutExpired:
            self.worker.kill()
            said = self.worker.communicate()[0]
        return self.worker.returncode, said

    def stop(self):
        self.worker.send_signal(signal.SIGTERM)
        return self.ended()

    def run(self, name):
        return self.conn.execute(
            "SELECT status, checkpoint_seq, claim_attempts, claimed_at IS NOT NULL, wake_at IS NOT NULL FROM gen_durable.run_inspect('system', %s)", (name,)
        ).fetchone()

    def events(self, name):
        return self.one("SELECT coalesce(string_agg(what, ' ' ORDER BY seq), '') FROM run_events WHERE run_id = %s", name)

    def gate(self, shut):
        self.conn.execute(f"SELECT pg_advisory_{'lock' if shut else 'unlock'}({GATE})")

    def at_gate(self):
        return self.until("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted)", GATE)

    def is_done(self, name):
        return self.until("SELECT status = 'done' FROM gen_durable.run_fetch('system', %s)", name)


def ends(test):
    """Runs that come to their end, and one that never will."""
    test.insert("one", "read", "pay")
    test.insert("two", "read")
    test.insert("never", "read", "raise")
    test.start()
    test.is_done("one")
    test.is_done("two")
    test.until("SELECT poisoned_at IS NOT NULL FROM gen_durable.run_inspect('system', 'never')")
    status, said = test.stop()
    check((test.events("one"), test.events("two")) == ("read pay", "read"), "an event for each step", (test.events("one"), test.events("two")))
    check(test.run("never")[:3] == ("running", 2, 2) and test.events("never") == "read", "a step that raises is tried again, and poisoned", test.run("never"))
    check(said.count("ValueError") == 3 and "poisoned: never" in said, "which it tells", said)
    check(status == 0, "SIGTERM ends it in good order", (status, said))


def shutdown(test):
    """SIGTERM in the middle of a step: this one is committed, and all that is left is given back."""
    test.gate(True)
    test.insert("first", "gate", "pay")
    test.insert("second", "read")
    test.start()
    test.at_gate()
    check(test.run("second")[2:4] == (1, True), "it has two runs, and is in the first", test.run("second"))
    test.worker.send_signal(signal.SIGTERM)
    test.gate(False)
    status, said = test.ended()
    check(status == 0, "it leaves in good order", (status, said))
    check(test.run("first") == ("running", 2, 0, False, True) and test.events("first") == "gate", "one step is committed, and the run given back", test.run("first"))
    check(test.run("second")[3:] == (False, True), "as is the one that had not begun", test.run("second"))


def refreshing(test):
    """A step that takes longer than the TTL is not taken away from a worker that refreshes, nor are runs that wait behind it."""
    test.gate(True)
    test.insert("long", "gate")
    test.insert("behind", "read")
    test.start()
    test.at_gate()
    claimed = test.one("SELECT max(claimed_at) FROM gen_durable.runs")
    test.until("SELECT clock_timestamp() > %s + interval '1.5 seconds'", claimed)
    check(test.one("SELECT count(*) FROM gen_durable.run_claim_due(10, '1 second', 5)") == 0, "nothing is there to steal")
    test.gate(False)
    test.is_done("long")
    test.is_done("behind")
    check((test.events("long"), test.events("behind")) == ("gate", "read"), "both end", (test.run("long"), test.run("behind")))
    test.stop()


def lost(test):
    """A run that is taken away in the middle of a step: nothing of that is committed, and the worker goes on."""
    test.gate(True)
    test.insert("stolen", "gate", "pay")
    test.start()
    test.at_gate()
    test.one("SELECT count(*) FROM gen_durable.run_claim_due(1, '0', 5)")
    test.gate(False)
    test.insert("next", "read")
    test.is_done("next")
    check((test.run("stolen")[:3], test.events("stolen")) == (("running", 1, 2), ""), "who lost its claim commits nothing", (test.run("stolen"), test.events("stolen")))
    check(test.stop()[0] == 0, "and goes on")


def killed(test):
    """SIGKILL in the middle of a step: the next worker begins it anew."""
    test.gate(True)
    test.insert("killed", "read", "gate", "pay")
    test.start()
    test.at_gate()
    test.worker.kill()
    test.ended()
    test.gate(False)
    test.start()
    test.is_done("killed")
    check(test.events("killed") == "read gate pay", "each step is committed once", test.events("killed"))
    test.stop()


def main():
    try:
        conn = psycopg.connect("", autocommit=True)
    except psycopg.OperationalError as error:
        print(f"Bail out! cannot connect: {error}")
        return 1
    conn.execute("SET client_min_messages = warning")
    conn.execute("CREATE EXTENSION IF NOT EXISTS gen_durable")
    conn.execute("DROP TABLE IF EXISTS run_events")
    conn.execute(re.search(r"CREATE TABLE run_events \(.*?\);", guide(), re.S).group(0))
    test = Test(conn)
    for part in (ends, shutdown, refreshing, lost, killed):
        conn.execute("TRUNCATE gen_durable.runs CASCADE")
        try:
            part(test)
        finally:
            if test.worker is not None and test.worker.poll() is None:
                test.worker.kill()
                test.worker.communicate()
            test.worker = None
            conn.execute("SELECT pg_advisory_unlock_all()")
    conn.execute("DROP TABLE run_events")
    print(f"1..{COUNT}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
