# From the commit of an insert to the step in the hands of a worker that waits: one worker, polls at their longest, so
# that only wake-ups can be quick. The time begins with the insert's commit record and ends when the worker has the answer to its
# take, which pgbench writes down in microseconds: the first after the commit, since inserts are milliseconds apart. The
# figures with a bar are without flushes to disk, which are the machine's. Notes tell what it is from the insert's answer in the
# hands of its client, with the insert's and the take's flush in it, and for a worker that sends its wait and its take in one go.
fresh bench_latency
q "CREATE UNLOGGED TABLE bench.inserted (id bigint); CREATE TABLE bench.answered (at float8 PRIMARY KEY);
  CREATE TABLE bench.returned (n bigint, at float8); CREATE TABLE bench.latency (ms float8, after_return float8)"
q "ALTER DATABASE bench_latency SET gen_durable.poll_interval = '5s'"
if [ "$(q "SHOW track_commit_timestamp")" = off ]; then
  q "ALTER SYSTEM SET track_commit_timestamp = on"
  server_stop
  server_start
fi
latency_turns=${BENCH_LATENCY:-2000}
latency_until() { # CONDITION
  local tries
  for ((tries = 0; tries < 400; tries++)); do
    [ "$(q "SELECT $1")" = t ] && return
    sleep 0.05
  done
  die "the worker was lost on the way"
}
latency_run() { # SYNCHRONOUS_COMMIT WORKER
  local worker
  q "ALTER DATABASE bench_latency SET synchronous_commit = $1"
  q "TRUNCATE gen_durable.instances CASCADE; TRUNCATE bench.inserted, bench.answered, bench.returned, bench.latency"
  rm -f "$WORK"/latency.log.* "$WORK"/latency.inserts.*
  as_server "$BINDIR/pgbench" -n -M prepared -f "$BENCH_DIR/scripts/$2.sql" -c 1 -t 1000000 -l "--log-prefix=$WORK/latency.log" "$DB" >"$WORK/latency.worker" 2>&1 &
  worker=$!
  latency_until "(SELECT count(*) FROM gen_durable.workers WHERE kind = 'waiter') = 1"
  pgbench_run latency_insert -c 1 -t "$latency_turns" -l "--log-prefix=$WORK/latency.inserts" >/dev/null
  latency_until "(SELECT count(*) FROM gen_durable.instances WHERE status = 'executing') = $latency_turns"
  q "SELECT pg_terminate_backend(pid) FROM gen_durable.workers WHERE kind = 'waiter'" >/dev/null
  wait "$worker" || true # it has lost its session
  awk '{ printf "%d.%06d\n", $5, $6 }' "$WORK"/latency.log.* >"$WORK/latency.answered"
  awk '{ printf "%d\t%d.%06d\n", NR, $5, $6 }' "$WORK"/latency.inserts.* >"$WORK/latency.returned"
  q "\\copy bench.answered FROM '$WORK/latency.answered'"
  q "\\copy bench.returned FROM '$WORK/latency.returned'"
  q "WITH i AS (
       SELECT row_number() OVER (ORDER BY id) AS n, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 AS at
       FROM bench.inserted),
     w AS (SELECT n, at, (SELECT min(a.at) FROM bench.answered a WHERE a.at > i.at) AS answered FROM i)
     INSERT INTO bench.latency SELECT (answered - w.at) * 1e3, (answered - r.at) * 1e3 FROM w JOIN bench.returned r USING (n)"
}
latency() { q "SELECT round(percentile_cont($1) WITHIN GROUP (ORDER BY ${2-ms})::numeric, 3) FROM bench.latency"; }

latency_run off latency_worker
report "latency: p50" "$(latency 0.5)" '<=' 0.5 "ms, $latency_turns inserts"
report "latency: p99" "$(latency 0.99)" '<=' 5 "ms; the longest $(latency 1)"
note "  from the answer to the insert's client: p50 $(latency 0.5 after_return) ms, p99 $(latency 0.99 after_return) ms"
latency_run off latency_pipeline
note "  wait and take sent in one go: p50 $(latency 0.5) ms, p99 $(latency 0.99) ms; from the answer to the client $(latency 0.5 after_return) ms"
latency_run on latency_worker
note "  with both flushes to disk: p50 $(latency 0.5) ms, p99 $(latency 0.99) ms"
