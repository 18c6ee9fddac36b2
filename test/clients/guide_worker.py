#!/usr/bin/python3
"""The worker of docs/workers.md, as it stands there, in what its table says of it.

Connects by the environment (PGHOST, PGPORT, PGUSER, PGDATABASE) to a database in which the extension can be created, and
prints TAP. Three lines of the program are replaced: how often it beats, a page of a report, which waits until the test
lets it go on, by an advisory lock, and what a mail to "nul" says. Rules: GD-150, GD-156, GD-160; D-1, D-15.
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
    from psycopg.types.json import Jsonb
except ImportError:
    print("1..0 # SKIP psycopg 3 is not installed")
    sys.exit(0)

DEADLINE = 30
GATE = 4711
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


def program():
    """The guide's program, with quick beats and with pages that stop at the gate."""
    guide = pathlib.Path(__file__).resolve().parents[2] / "docs" / "workers.md"
    text = re.search(r"^```python\n(.*?)^```", guide.read_text(encoding="utf-8"), re.M | re.S).group(1)
    for line, instead in (
        ("BEAT = 20 ", "BEAT = 0.1 "),
        ("        check()   ", f'        gate.execute("SELECT pg_advisory_lock_shared({GATE}), pg_advisory_unlock_shared({GATE})"); check()   '),
        ('{"sent": state["to"]}', '{"sent": state["to"].replace("nul", chr(0))}'),
        ("held, lost = set(), set()", 'gate = psycopg.connect("", autocommit=True)\nheld, lost = set(), set()'),
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

    def insert(self, fsm, state, queue="reports"):
        return self.one("SELECT id FROM gen_durable.insert(%s, %s, queue => %s)", fsm, Jsonb(state), queue)

    def start(self, lease="60s"):
        options = f"-c gen_durable.lease_ttl={lease}"
        self.worker = subprocess.Popen(
            [sys.executable, "-c", program()], env={**os.environ, "PGOPTIONS": options, "PGAPPNAME": "guide_worker"},
            stderr=subprocess.PIPE, text=True,
        )

    def stop(self):
        """SIGTERM; how it ended and how long that took."""
        began = time.monotonic()
        self.worker.send_signal(signal.SIGTERM)
        return self.ended(), time.monotonic() - began

    def ended(self):
        try:
            errors = self.worker.communicate(timeout=DEADLINE)[1]
        except subprocess.TimeoutExpired:
            self.worker.kill()
            errors = self.worker.communicate()[1]
        if errors:
            print("\n".join("# " + line for line in errors.splitlines()))
        return self.worker.returncode

    def row(self, instance):
        return self.conn.execute(
            "SELECT status::text, attempt, crashes, last_error FROM gen_durable.instances WHERE id = %s", (instance,)
        ).fetchone()

    def gate(self, shut):
        self.conn.execute(f"SELECT pg_advisory_{'lock' if shut else 'unlock'}({GATE})")

    def at_gate(self):
        return self.until("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted)", GATE)


def outcomes(test):
    """What becomes of a step that is done, that raises, and whose outcome is none."""
    done = test.insert("mail", {"to": "ada"}, "mails")
    raises = test.insert("mail", {}, "mails")
    unknown = test.insert("unknown", {}, "mails")
    refused = test.insert("mail", {"to": "nul"}, "mails")
    test.start()
    test.until("SELECT NOT EXISTS (SELECT FROM gen_durable.instances WHERE status = 'executing' OR (attempt = 0 AND status = 'runnable'))")
    check(test.row(done)[0] == "done", "a step is done", test.row(done))
    check(test.row(raises)[:2] == ("runnable", 1) and "KeyError" in test.row(raises)[3], "a step that raises is tried again", test.row(raises))
    check(test.row(unknown)[:2] == ("runnable", 1), "so is one that nobody has written", test.row(unknown))
    check(test.row(refused)[:2] == ("runnable", 1) and "u0000" in test.row(refused)[3], "and one whose outcome is refused", test.row(refused))
    test.conn.execute("TRUNCATE gen_durable.instances")  # nothing is to wake it
    status, took = test.stop()
    check(status == 0 and took < 8, "SIGTERM ends the wait at once", (status, took))


def shutdown(test):
    """SIGTERM in the middle of a step: this one is ended, the others are given back as they were."""
    test.gate(True)
    ids = [test.insert("report", {"pages": 1}) for _ in range(3)]
    test.start()
    test.at_gate()
    check([test.row(i)[0] for i in ids] == ["executing"] * 3, "it has three steps, and is in the first", [test.row(i) for i in ids])
    test.worker.send_signal(signal.SIGTERM)
    test.gate(False)
    check(test.ended() == 0, "it leaves in good order", test.worker.returncode)
    check([test.row(i)[:3] for i in ids] == [("done", 0, 0)] + [("runnable", 0, 0)] * 2, "one done, two given back", [test.row(i) for i in ids])


def cancelled(test):
    """A beat tells of a cancellation in the middle of a step, which stops at its next page."""
    test.gate(True)
    report = test.insert("report", {"pages": 1000000})
    test.start()
    test.at_gate()
    test.one("SELECT gen_durable.cancel(%s)", report)
    test.gate(False)
    test.until("SELECT status = 'cancelled' FROM gen_durable.instances WHERE id = %s", report)
    check(test.row(report)[0] == "cancelled", "it stops and gives back what shall be cancelled", test.row(report))
    check(test.stop()[0] == 0, "and goes on", test.worker.returncode)


def beating(test):
    """A step that takes longer than its lease is not taken away from a worker that beats."""
    test.gate(True)
    report = test.insert("report", {"pages": 1})
    test.start("2s")
    test.at_gate()
    first = test.one("SELECT lease_expires_at FROM gen_durable.instances WHERE id = %s", report)
    test.until("SELECT clock_timestamp() > %s", first)
    test.conn.execute("SELECT gen_durable.tick()")
    check(test.row(report)[:3] == ("executing", 0, 0), "after its lease it is still held", test.row(report))
    test.gate(False)
    test.until("SELECT status = 'done' FROM gen_durable.instances WHERE id = %s", report)
    check(test.row(report)[:3] == ("done", 0, 0), "and is done", test.row(report))
    check(test.stop()[0] == 0, "the worker goes on", test.worker.returncode)


def connection(test):
    """A lost connection ends the worker; its step is left to the lease."""
    test.start()
    test.until("SELECT count(*) >= 2 FROM pg_stat_activity WHERE application_name = 'guide_worker' AND datname = current_database()")
    test.one("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'guide_worker' AND datname = current_database()")
    check(test.ended() not in (0, None), "a lost connection ends it", test.worker.returncode)


def main():
    with psycopg.connect("", autocommit=True) as conn:
        conn.execute("SET client_min_messages = warning")
        conn.execute("CREATE EXTENSION IF NOT EXISTS gen_durable")
        conn.execute("TRUNCATE gen_durable.instances")
        test = Test(conn)
        for part in (outcomes, shutdown, cancelled, beating, connection):
            conn.execute("TRUNCATE gen_durable.instances")
            part(test)
    print(f"1..{COUNT}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
