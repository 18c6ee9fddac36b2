# shellcheck shell=bash
# The size of the engine's tables and indexes after millions of steps over 100,000 instances, against their size when the
# instances were fresh, with autovacuum as a server has it by default.
MILLIONS=${BENCH_STEPS:-1}
fresh bench_size
total_size() {
  q "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = 'gen_durable'::regnamespace AND relkind = 'r'"
}
autovacuum() { # on | off
  q "ALTER SYSTEM SET autovacuum = $1"
  q "SELECT pg_reload_conf()" >/dev/null
}
q "CALL bench.load('gen_durable.instances', 100000)"
q "VACUUM ANALYZE gen_durable.instances"
size_before=$(total_size)
autovacuum on
since=$SECONDS
pgbench_run steps_engine -c 4 -j 2 -t "$((MILLIONS * 2500))" >/dev/null
took=$((SECONDS - since))
size_after=$(total_size)
autovacuum off
vacuums=$(q "SELECT autovacuum_count + vacuum_count - 1 FROM pg_stat_user_tables WHERE relid = 'gen_durable.instances'::regclass")
report "size: after $MILLIONS million steps" "$(calc "$size_after / $size_before")" '<=' 3 \
  "$((size_after / 1048576)) : $((size_before / 1048576)) MB; $vacuums vacuums in $took s"
