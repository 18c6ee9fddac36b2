#!/usr/bin/python3
"""Workers in Python, over psycopg 3: the three ways in which a client commits the outcome of a step.

Connects by the environment (PGHOST, PGPORT, PGUSER, PGDATABASE) to a database in which the extension can be created, and
prints TAP. Rules: GD-059, GD-150, GD-156, GD-160; D-1, D-8, D-16; the exactly-once promise of complete().
"""

import sys
import threading
import uuid
from datetime import timedelta

try:
    import psycopg
    from psycopg.types.json import Jsonb
except ImportError:
    print("1..0 # SKIP psycopg 3 is not installed")
    sys.exit(0)

COUNT = 0
FAILED = 0


def check(good, what, detail=None):
    """One TAP line; what was got is told when it is wrong."""
    global COUNT, FAILED
    COUNT += 1
    print(f"{'ok' if good else 'not ok'} {COUNT} - {what}", flush=True)
    if not good:
        FAILED += 1
        if detail is not None:
            print(f"#   got {detail!r}", flush=True)


def equal(got, want, what):
    check(got == want, what, (got, "want", want))


def connect(**options):
    return psycopg.connect("", **options)


def fetch(conn, query, *parameters, **options):
    return conn.execute(query, parameters, **options).fetchall()


def one(conn, query, *parameters, **options):
    rows = fetch(conn, query, *parameters, **options)
    return rows[0][0] if rows else None


def prepare():
    with connect(autocommit=True) as conn:
        conn.execute("SET client_min_messages = warning")
        conn.execute("CREATE EXTENSION IF NOT EXISTS gen_durable")
        conn.execute("TRUNCATE gen_durable.instances CASCADE")
        conn.execute("DROP TABLE IF EXISTS py_written")
        conn.execute("CREATE TABLE py_written (id bigint, step text)")


def plain_loop():
    """A worker loop in autocommit: pick, work, complete; signals and a park on the way."""
    with connect(autocommit=True) as conn:
        ident, created = fetch(
            conn, "SELECT id, created FROM gen_durable.insert(%s, state => %s, queue => 'py')", "hello", Jsonb({"n": 0})
        )[0]
        check(created, "insert creates an instance")
        steps = []
        while True:
            jobs = conn.execute(
                "SELECT token, id, step, state, attempt, awaited FROM gen_durable.pick(%s, %s)", ("py", "python")
            ).fetchall()
            if not jobs:
                row = fetch(conn, "SELECT outcome, status FROM gen_durable.await(%s, '0')", ident)[0]
                if row[0] == "awaiting":
                    delivered = one(conn, "SELECT gen_durable.signal(%s, 'go', %s)", ident, Jsonb({"by": "python"}))
                    equal(delivered, "delivered", "a parked instance takes a signal")
                    continue
                break
            token, job, step, state, attempt, awaited = jobs[0]
            steps.append(step)
            if step == "start":
                outcome = {"outcome": "next", "step": "two", "state": {"n": state["n"] + 1}}
            elif step == "two" and attempt == 0:
                outcome = {"outcome": "retry", "delay": "PT0S"}
            elif step == "two":
                outcome = {"outcome": "await", "names": ["go"], "step": "three", "timeout": "1 hour"}
            else:
                outcome = {"outcome": "done", "result": {"n": state["n"], "by": awaited[0]["payload"]["by"]}}
            conn.execute("SELECT gen_durable.complete(%s, %s)", (token, Jsonb(outcome)))
        equal(steps, ["start", "two", "two", "three"], "the steps come one after the other")
        equal(
            fetch(conn, "SELECT outcome, result FROM gen_durable.await(%s)", ident)[0],
            ("done", {"n": 1, "by": "python"}),
            "the result is what the worker made it",
        )
        equal(one(conn, "SELECT gen_durable.signal(%s, 'go')", ident), "no_target", "an instance that has ended takes none")


def own_writes():
    """A worker with its own writes in one transaction: both commit, or neither."""
    with connect(autocommit=True) as conn:
        one(conn, "SELECT id FROM gen_durable.insert('pay', queue => 'py')")
    with connect() as conn:
        token, ident = fetch(conn, "SELECT token, id FROM gen_durable.pick('py', 'python', 1, '0')")[0]
        conn.commit()
        with conn.transaction():
            conn.execute("INSERT INTO py_written VALUES (%s, 'start')", (ident,))
            conn.execute("SELECT gen_durable.complete(%s, gen_durable.next_step('two'))", (token,))
        equal(one(conn, "SELECT count(*) FROM py_written"), 1, "the write and the outcome commit together")
        token = one(conn, "SELECT token FROM gen_durable.pick('py', 'python', 1, '0')")
        conn.commit()
        with connect(autocommit=True) as other:
            equal(one(other, "SELECT gen_durable.reap()"), 1, "the claim is taken away")
        try:
            with conn.transaction():
                conn.execute("INSERT INTO py_written VALUES (%s, 'two')", (ident,))
                conn.execute("SELECT gen_durable.complete(%s, gen_durable.done())", (token,))
            check(False, "a stale token raises")
        except psycopg.Error as error:
            equal(error.sqlstate, "GD001", "a stale token raises GD001")
            check(str(token) in str(error) or str(ident) in str(error), "and the message names it", str(error))
        equal(one(conn, "SELECT count(*) FROM py_written"), 1, "and the write is gone with it")
        conn.commit()
        token = one(conn, "SELECT token FROM gen_durable.pick('py', 'python')")
        conn.execute("SELECT gen_durable.complete(%s, gen_durable.done())", (token,))
        conn.rollback()
        equal(
            one(conn, "SELECT status::text FROM gen_durable.instances WHERE id = %s", ident),
            "runnable",
            "a transaction rolled back takes the claim and the outcome along",
        )
        conn.rollback()
    with connect(autocommit=True) as conn:
        one(conn, "SELECT gen_durable.cancel(%s)", ident)


def parameters():
    """Parameters as drivers send them: text and binary, typed and untyped, prepared, with every awkward character."""
    awkward = "it's \"quoted\" 100%_\n\t\\ ünï 日本 \U0001f600"
    state = {"text": awkward, "list": [1, 2.5, None, True], "big": 2**62}
    with connect(autocommit=True) as conn:
        for binary in (False, True):
            kind = "binary" if binary else "text"
            form = "b" if binary else "s"
            ident = one(
                conn,
                f"SELECT id FROM gen_durable.insert(%{form}, %{form}, queue => %{form}, priority => %{form}::int, eligible_at => now() - %{form}::interval)",
                awkward, Jsonb(state), awkward, 3, timedelta(seconds=5),
            )
            with conn.cursor(binary=binary) as cur:
                cur.execute(f"SELECT token, id, fsm, state, queue, lease_expires_at FROM gen_durable.pick(%{form}, %{form}, %{form}::int)", (awkward, awkward, 5))
                rows = cur.fetchall()
                equal([(r[1], r[2], r[3], r[4]) for r in rows], [(ident, awkward, state, awkward)], f"{kind}: names and state come back as they went")
                token = rows[0][0]
                check(isinstance(token, uuid.UUID), f"{kind}: a token is a uuid", token)
                cur.execute(f"SELECT token, held FROM gen_durable.heartbeat(%{form})", ([token],))
                equal(cur.fetchall(), [(token, True)], f"{kind}: heartbeat takes an array of uuids")
                cur.execute(f"SELECT gen_durable.complete(%{form}, %{form})", (token, Jsonb({"outcome": "done", "result": state})))
                cur.execute(f"SELECT result, error FROM gen_durable.await(%{form})", (ident,))
                equal(cur.fetchall(), [(state, None)], f"{kind}: the result comes back as it went")
        # The server infers the types of untyped parameters; prepared statements stay good through many claims.
        for number in range(8):
            conn.execute("SELECT gen_durable.insert(%s, queue => 'prepared')", (f"p{number}",), prepare=True)
        names = []
        for _ in range(8):
            token, fsm = conn.execute("SELECT token, fsm FROM gen_durable.pick(%s, %s)", ("prepared", "python"), prepare=True).fetchone()
            conn.execute("SELECT gen_durable.complete(%s, %s)", (token, Jsonb({"outcome": "done"})), prepare=True)
            names.append(fsm)
        equal(names, [f"p{number}" for number in range(8)], "prepared statements, in the order of insertion")
        # A token may come as text from a language without uuids.
        conn.execute("SELECT gen_durable.insert('t', queue => 't')")
        token = one(conn, "SELECT token FROM gen_durable.pick('t', 'w')")
        conn.execute("SELECT gen_durable.complete(%s::text::uuid, '{\"outcome\": \"done\"}')", (str(token),))
        for bad, want in (("nonsense", "22P02"), (str(uuid.uuid4()), "GD001"), (str(token), "GD001")):
            try:
                conn.execute("SELECT gen_durable.complete(%s, '{\"outcome\": \"done\"}')", (bad,))
                check(False, f"{want} for the token {bad}")
            except psycopg.Error as error:
                equal(error.sqlstate, want, f"{want} for a token that is {'malformed' if want == '22P02' else 'not current'}")
        try:
            conn.execute("SELECT gen_durable.insert('nul', %s)", ('{"text": "\\u0000"}',))
            check(False, "an escaped NUL is refused")
        except psycopg.Error as error:
            equal(error.sqlstate, "22P05", "an escaped NUL is refused with the argument")


def pipeline():
    """Many calls on the wire before the first answer; an error takes its own transaction along only."""
    with connect(autocommit=True) as conn:
        with conn.pipeline():
            cursors = [conn.execute("SELECT id FROM gen_durable.insert('piped', queue => 'pipe')") for _ in range(20)]
            idents = [cursor.fetchone()[0] for cursor in cursors]
        equal(len(set(idents)), 20, "twenty inserts in one pipeline")
        jobs = fetch(conn, "SELECT token, id FROM gen_durable.pick('pipe', 'python', 20)")
        equal([job[1] for job in jobs], idents, "claimed in the order of insertion")
        with conn.pipeline():
            cursors = [conn.execute("SELECT gen_durable.complete(%s, %s)", (job[0], Jsonb({"outcome": "next", "step": "two"}))) for job in jobs]
            for cursor in cursors:
                cursor.fetchone()
        jobs = fetch(conn, "SELECT token, id FROM gen_durable.pick('pipe', 'python', 20)")
        equal(len(jobs), 20, "twenty outcomes in one pipeline")
        outcomes = [{"token": str(job[0]), "outcome": "done"} for job in jobs]
        outcomes.insert(5, {"token": str(uuid.uuid4()), "outcome": "done"})
        outcomes.insert(9, {"token": str(jobs[0][0]), "outcome": "no such"})
        results = fetch(conn, "SELECT ord, id, result FROM gen_durable.complete_many(%s) ORDER BY ord", Jsonb(outcomes))
        equal(sum(1 for row in results if row[2] == "committed"), 20, "a batch commits row by row")
        check(results[5][2] == "stale" and results[9][2].startswith("invalid: "), "a stale and an invalid entry are told of", (results[5], results[9]))
        with conn.cursor() as cur:
            cur.execute("SELECT gen_durable.insert('whole', queue => 'pipe')")
            cur.execute("CALL gen_durable.commit_and_take(%s, 'pipe', 'python')", (Jsonb([]),))
            results, taken = cur.fetchone()
        check(results == [] and len(taken) == 1 and taken[0]["fsm"] == "whole", "commit_and_take returns its jobs", (results, taken))
        with conn.cursor() as cur:
            cur.execute(
                "CALL gen_durable.commit_and_take(%s, 'pipe', 'python')",
                (Jsonb([{"token": taken[0]["token"], "outcome": "done", "result": {"ok": True}}]),),
            )
            results, taken = cur.fetchone()
        check(results[0]["result"] == "committed" and taken == [], "and its results", (results, taken))


def together():
    """Four workers share a queue: each step is worked once."""
    with connect(autocommit=True) as conn:
        equal(
            one(conn, "SELECT count(*) FROM gen_durable.insert_all('shared', %s)", Jsonb([{"queue": "shared", "state": {"n": n}} for n in range(100)])),
            100,
            "insert_all of a hundred",
        )
    worked = []
    errors = []

    def work(name):
        try:
            with connect(autocommit=True) as conn:
                while True:
                    jobs = fetch(conn, "SELECT token, state FROM gen_durable.pick('shared', %s, 3)", name)
                    if not jobs:
                        return
                    for token, state in jobs:
                        conn.execute("SELECT gen_durable.complete(%s, gen_durable.done())", (token,))
                        worked.append(state["n"])
        except psycopg.Error as error:
            errors.append(str(error))

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    equal(errors, [], "no worker fails")
    equal(sorted(worked), list(range(100)), "each step is worked once")


def waiting():
    """CALL wait as drivers send it: parameters, prepared, in autocommit; and refused inside a transaction."""
    with connect(autocommit=True) as conn:
        for prepared in (False, True):
            conn.execute("CALL gen_durable.wait(%s, '10 ms')", (["wait", "nobody"],), prepare=prepared)
        one(conn, "SELECT id FROM gen_durable.insert('waited', queue => 'wait')")
        conn.execute("CALL gen_durable.wait(%s, %s)", (["wait"], timedelta(hours=1)))
        check(len(fetch(conn, "SELECT token FROM gen_durable.take('wait', 'python')")) == 1, "wait returns when there is work")

        def insert_when_it_waits():
            with connect(autocommit=True) as other:
                while not one(
                    other, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL gen_durable.wait%%' AND wait_event_type = 'Extension'"
                ):
                    pass
                one(other, "SELECT id FROM gen_durable.insert('woken', queue => 'wait')")

        thread = threading.Thread(target=insert_when_it_waits)
        thread.start()
        conn.execute("CALL gen_durable.wait(%s, '1 hour')", (["wait"],))
        thread.join(60)
        check(len(fetch(conn, "SELECT token FROM gen_durable.take('wait', 'python')")) == 1, "wait returns when there comes work")
    with connect() as conn:
        try:
            conn.execute("CALL gen_durable.wait(%s)", (["wait"],))
            check(False, "wait raises in a transaction")
        except psycopg.Error as error:
            equal(error.sqlstate, "25001", "wait raises 25001 in a transaction")
        conn.rollback()


def main():
    prepare()
    for part in (plain_loop, own_writes, parameters, pipeline, together, waiting):
        try:
            part()
        except psycopg.Error as error:
            check(False, f"{part.__name__} runs to its end", f"{error.sqlstate}: {error}")
    print(f"1..{COUNT}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
