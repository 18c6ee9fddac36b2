# shellcheck shell=bash
# WAL bytes a step, and the transaction ids that a batch of outcomes takes. Each run starts after a checkpoint on freshly
# loaded rows, so that both sides pay for full page images alike.
fresh bench_wal
wal_side() { # TABLE SCRIPT
  local since before after
  q "TRUNCATE $1 CASCADE"
  q "CALL bench.load('$1', 20000)"
  q "VACUUM ANALYZE $1"
  before=$(q "SELECT bench.updates('$1')")
  q "CHECKPOINT"
  since=$(q "SELECT pg_current_wal_insert_lsn()")
  pgbench_run "$2" -c 1 -t 1000 >/dev/null
  after=$(q "SELECT bench.updates('$1')")
  calc "$(q "SELECT pg_current_wal_insert_lsn() - '$since'") / (($after - $before) / 2)"
}
wal_engine() { wal_side gen_durable.instances steps_engine; }
wal_yardstick() { wal_side yardstick.instances steps_yardstick; }
pairs 3 wal_engine wal_yardstick
report_pairs "wal: bytes a step" '<=' 1.1 "bytes"

q "TRUNCATE gen_durable.instances CASCADE"
q "CALL bench.load('gen_durable.instances', 2000)"
ids=$(q "$(cat "$BENCH_DIR/scripts/transaction_ids.sql")")
[ "${ids%$'\t'*}" = 1000 ] || die "${ids%$'\t'*} of 1,000 outcomes were committed"
report "wal: transaction ids of 1,000" "${ids#*$'\t'}" '=' 1 "complete_many of 1,000 plain outcomes"
