#!/usr/bin/python3
"""A false API with limits of its own, and no patience: so many calls in any window of time, so many at once.

    api.py PORT [--calls 100] [--seconds 60] [--at-once 3] [--takes 0.1]

POST /send takes a while and answers 200. A call too many is answered 429 and counted: GET /stats says how many were served,
how many were refused, and how close it came. PORT 0 takes a free one; the first line of output says which.
"""

import argparse
import collections
import http.server
import json
import threading
import time


class Limits:
    """What is let in. The window slides: there is no moment at which everything begins anew."""

    def __init__(self, calls, seconds, at_once):
        self.calls, self.seconds, self.at_once = calls, seconds, at_once
        self.lock = threading.Lock()
        self.window = collections.deque()  # when the calls of the last seconds came
        self.running = 0
        self.stats = {"served": 0, "refused": 0, "most_in_a_window": 0, "most_at_once": 0}

    def enter(self):
        now = time.monotonic()
        with self.lock:
            while self.window and self.window[0] <= now - self.seconds:
                self.window.popleft()
            if len(self.window) >= self.calls or self.running >= self.at_once:
                self.stats["refused"] += 1
                return False
            self.window.append(now)
            self.running += 1
            self.stats["most_in_a_window"] = max(self.stats["most_in_a_window"], len(self.window))
            self.stats["most_at_once"] = max(self.stats["most_at_once"], self.running)
            return True

    def leave(self):
        with self.lock:
            self.running -= 1
            self.stats["served"] += 1


class Handler(http.server.BaseHTTPRequestHandler):
    limits = None
    takes = 0.1

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.limits.enter():
            self.answer(429, {"error": "too many calls"})
            return
        try:
            time.sleep(self.takes)
        finally:
            self.limits.leave()
        self.answer(200, {"sent": json.loads(body or b"null")})

    def do_GET(self):
        with self.limits.lock:
            stats = dict(self.limits.stats)
        self.answer(200, stats)

    def answer(self, status, value):
        body = json.dumps(value).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            pass  # the caller is gone

    def log_message(self, *args):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("--takes", type=float, default=0.1)
    args = parser.parse_args()
    Handler.limits = Limits(args.calls, args.seconds, args.at_once)
    Handler.takes = args.takes
    server = http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    print(f"http://127.0.0.1:{server.server_port}/send", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
