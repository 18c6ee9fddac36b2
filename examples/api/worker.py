#!/usr/bin/python3
"""Calls an API, one step a call. How often, and how many at once, the workers do not know: the database does.

    worker.py NAME URL          (PGHOST, PGDATABASE, PGUSER, ... say where; SIGTERM ends it)

One job at a time, because a claim under a gate holds its slot from the claim on, whether its call has begun or not. The
call is given up long before the lease ends: what is called after it would be one too many.
"""

import json
import sys
import urllib.error
import urllib.request

import psycopg
from psycopg.types.json import Jsonb

NAME, URL = sys.argv[1:]
TIMEOUT = 20  # seconds; the lease is 60


def call(state):
    request = urllib.request.Request(URL, json.dumps(state).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return {"outcome": "done", "result": json.load(answer)}
    except urllib.error.HTTPError as error:
        if error.code == 429:  # its limits are not what we think: later, and under ours again
            return {"outcome": "retry", "delay": "30 seconds"}
        return {"outcome": "fail", "error": str(error)}
    except OSError as error:
        return {"outcome": "fail", "error": repr(error)}


with psycopg.connect("", autocommit=True) as db:
    while True:
        jobs = db.execute("SELECT token, state FROM gen_durable.take('calls', %s)", (NAME,)).fetchall()
        for token, state in jobs:
            try:
                db.execute("SELECT gen_durable.complete(%s, %s)", (token, Jsonb(call(state))))
            except psycopg.Error as error:
                if error.sqlstate != "GD001":  # the claim was lost, or its cancellation was asked for
                    raise
                db.execute("SELECT gen_durable.release(%s)", ([token],))
        if not jobs:
            db.execute("CALL gen_durable.wait(ARRAY['calls'], '10 seconds')")
