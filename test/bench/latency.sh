# shellcheck shell=bash
# From the commit of an insert to the step in the hands of a worker that waits: one worker, polls at their longest, so
# that only wake-ups can be quick. The time begins with the insert's commit record and ends when the worker has the answer to its
# take, which pgbench writes down in microseconds: the n-th step that the one worker gets is the n-th that the one client
# inserted. The figures with a bar are without flushes to disk, which are the machine's; what it is with the insert's
# and the take's flush in it is a note, and so is a worker that sends its wait and its take in one go.
fresh bench_latency
q "CREATE UNLOGGED TABLE bench.inserted (id bigint); CREATE TABLE bench.taken (n bigint, at float8); CREATE TABLE bench.latency (ms float8)"
q "ALTER DATABASE bench_latency SET gen_durable.poll_interval = '5s'"
if [ "$(q "SHOW track_commit_timestamp")" = off ]; then
  q "ALTER SYSTEM SET track_commit_timestamp = on"
  server_stop
  server_start
fi
latency_turns=${BENCH_LATENCY:-2000}
latency_run() { # SYNCHRONOUS_COMMIT WORKER
  local worker tries
  q "ALTER DATABASE bench_latency SET synchronous_commit = $1"
  q "TRUNCATE gen_durable.instances CASCADE; TRUNCATE bench.inserted, bench.taken, bench.latency"
  rm -f "$WORK"/latency.log.*
  as_server "$BINDIR/pgbench" -n -M prepared -f "$BENCH_DIR/scripts/$2.sql" -c 1 -t "$latency_turns" -l "--log-prefix=$WORK/latency.log" "$DB" >"$WORK/latency.worker" 2>&1 &
  worker=$!
  for ((tries = 0; tries < 100; tries++)); do
    [ "$(q "SELECT count(*) FROM gen_durable.workers WHERE kind = 'waiter'")" = 1 ] && break
    sleep 0.05
  done
  pgbench_run latency_insert -c 1 -t "$latency_turns" >/dev/null
  wait "$worker" || die "the waiting worker failed"
  awk '{ printf "%d\t%d.%06d\n", NR, $5, $6 }' "$WORK"/latency.log.* >"$WORK/latency.taken"
  q "\\copy bench.taken FROM '$WORK/latency.taken'"
  q "INSERT INTO bench.latency
     SELECT (t.at - extract(epoch FROM pg_xact_commit_timestamp(i.xmin))) * 1e3
     FROM bench.taken t JOIN (SELECT row_number() OVER (ORDER BY id) AS n, xmin FROM bench.inserted) i USING (n)"
  [ "$(q "SELECT count(*) FROM bench.latency WHERE ms > 0")" = "$latency_turns" ] || die "the worker was lost on the way"
}
latency() { q "SELECT round(percentile_cont($1) WITHIN GROUP (ORDER BY ms)::numeric, 3) FROM bench.latency"; }

latency_run off latency_worker
report "latency: p50" "$(latency 0.5)" '<=' 0.5 "ms, $latency_turns inserts"
report "latency: p99" "$(latency 0.99)" '<=' 5 "ms; the longest $(latency 1)"
latency_run off latency_pipeline
note "  wait and take sent in one go: p50 $(latency 0.5) ms, p99 $(latency 0.99) ms"
latency_run on latency_worker
note "  with both flushes to disk: p50 $(latency 0.5) ms, p99 $(latency 0.99) ms"
