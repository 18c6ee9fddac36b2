# shellcheck shell=bash
# Inserts: one a transaction, durable at 4 clients; then not durable at 1 client, where only the work itself counts; and
# 10,000 in one call against INSERT ... SELECT.
fresh bench_insert
insert_side() { # SCRIPT SCHEMA CLIENTS SYNCHRONOUS_COMMIT
  q "TRUNCATE $2.instances CASCADE"
  PGOPTIONS="$PGOPTIONS -c synchronous_commit=$4" pgbench_run "insert_$1" -c "$3" -j 2 -T "$SECONDS_A_RUN"
}
insert_durable() { insert_side engine gen_durable 4 on; }
insert_durable_yardstick() { insert_side yardstick yardstick 4 on; }
insert_bare() { insert_side engine gen_durable 1 off; }
insert_bare_yardstick() { insert_side yardstick yardstick 1 off; }
pairs "$PAIRS" insert_durable insert_durable_yardstick
report_pairs "insert: durable, 4 clients" '>=' 0.9 "inserts/s"
pairs "$PAIRS" insert_bare insert_bare_yardstick
report_pairs "insert: not durable, 1 client" '>=' 0.9 "inserts/s"

# The entries come as the text that a client sends.
q "INSERT INTO bench.entries
   SELECT jsonb_agg(jsonb_build_object('state', jsonb_build_object('order', g, 'customer', 'customer ' || g % 1000)))
   FROM generate_series(1, 10000) g"
insert_rate() { calc "1e7 / $(q "CALL bench.timed(\$sql\$$1\$sql\$)")"; }
insert_all() {
  insert_rate "SELECT count(*) FROM gen_durable.insert_all('bench', (SELECT entries::jsonb FROM bench.entries))"
}
insert_select() {
  insert_rate "INSERT INTO yardstick.instances (fsm, step, state)
    SELECT 'bench', 'start', jsonb_build_object('order', g, 'customer', 'customer ' || g % 1000) FROM generate_series(1, 10000) g"
}
q "TRUNCATE gen_durable.instances, yardstick.instances CASCADE"
insert_all >/dev/null
insert_select >/dev/null
pairs $((PAIRS * 3)) insert_all insert_select
report_pairs "insert: insert_all of 10,000" '>=' 0.7 "rows/s"
