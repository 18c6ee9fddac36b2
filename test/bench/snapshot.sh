# shellcheck shell=bash
# The cost of a claim behind an old snapshot: steps run while one transaction holds its snapshot, so that vacuum can take
# nothing and every entry that they left stays in the pick index. Microseconds a row of claims of 100 after that, against
# the same before, the mean of committed claims whose steps go on. BENCH_HELD steps (500000).
held_steps=${BENCH_HELD:-500000}
held_cost() { # FUNCTION
  DB=bench_snapshot q "CALL bench.claim_cost_by('$1', 100, 60)"
}
fresh bench_snapshot
q "SELECT gen_durable.set_queue('bench', concurrency => 4, prefetch => 200)"
q "CALL bench.load('gen_durable.instances', 20000)"
q "VACUUM ANALYZE gen_durable.instances"
held_before_pick=$(held_cost pick)
held_before_take=$(held_cost take)
as_server "$BINDIR/psql" -Xq -d "$DB" -c "BEGIN ISOLATION LEVEL REPEATABLE READ" -c "SELECT count(*) FROM gen_durable.queues" -c "SELECT pg_sleep(3600)" >/dev/null 2>&1 &
held_by=$!
pgbench_run steps_engine -c 4 -j 2 -t $((held_steps / 400)) >/dev/null
[ "$(q "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)%' AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()")" = 1 ] || die "nobody holds the snapshot"
q "VACUUM gen_durable.instances"
held_after_pick=$(held_cost pick)
held_after_take=$(held_cost take)
q "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)%' AND pid <> pg_backend_pid()"
wait "$held_by" || true
report "snapshot: pick" "$(calc "$held_after_pick / $held_before_pick")" '<=' 1.5 "$held_after_pick : $held_before_pick us/row, $held_steps steps"
report "snapshot: take" "$(calc "$held_after_take / $held_before_take")" '<=' 1.5 "$held_after_take : $held_before_take us/row"
