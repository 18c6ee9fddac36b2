# shellcheck shell=bash
# From the commit of an insert to the step in the hands of a worker that waits: one worker, polls at their longest, so
# that only wake-ups can be quick. The time begins with the insert's commit record and ends when the worker, which has
# had the answer to its take, asks the server's clock. The figures with a bar are without flushes to disk, which are
# the machine's; what it is with the insert's and the take's flush in it is a note.
fresh bench_latency
q "CREATE TABLE bench.latency (ms float8); CREATE UNLOGGED TABLE bench.inserted (id bigint PRIMARY KEY)"
q "ALTER DATABASE bench_latency SET gen_durable.poll_interval = '5s'"
if [ "$(q "SHOW track_commit_timestamp")" = off ]; then
  q "ALTER SYSTEM SET track_commit_timestamp = on"
  server_stop
  server_start
fi
latency_turns=${BENCH_LATENCY:-2000}
latency_run() { # SYNCHRONOUS_COMMIT
  local worker
  q "ALTER DATABASE bench_latency SET synchronous_commit = $1"
  q "TRUNCATE bench.latency, bench.inserted"
  as_server "$BINDIR/pgbench" -n -M prepared -f "$BENCH_DIR/scripts/latency_worker.sql" -c 1 -t "$latency_turns" "$DB" >"$WORK/latency.worker" 2>&1 &
  worker=$!
  pgbench_run latency_insert -c 1 -t "$latency_turns" >/dev/null
  wait "$worker" || die "the waiting worker failed"
  [ "$(q "SELECT count(*) FROM bench.latency")" = "$latency_turns" ] || die "the worker was lost on the way"
}
latency() { q "SELECT round(percentile_cont($1) WITHIN GROUP (ORDER BY ms)::numeric, 3) FROM bench.latency"; }
latency_run off
report "latency: p50" "$(latency 0.5)" '<=' 0.5 "ms, $latency_turns inserts"
report "latency: p99" "$(latency 0.99)" '<=' 5 "ms; the longest $(latency 1)"
latency_run on
note "  with both flushes to disk: p50 $(latency 0.5) ms, p99 $(latency 0.99) ms"
