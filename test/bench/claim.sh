# shellcheck shell=bash
# The cost of a claim does not depend on what else is in the table: microseconds a row of pick(100) there, against a table
# of 10,000 runnable rows alone. Each state is a database of its own, so that its indexes have their own height.
claim_cost() { DB=$1 q "CALL bench.claim_cost(100, 30)"; }
claim_base() { claim_cost bench_claim; }
claim_state() { claim_cost bench_claim_state; }
settle() { q "VACUUM ANALYZE gen_durable.instances" && q "CHECKPOINT"; }
load() { q "CALL bench.load('gen_durable.instances', $1)"; }

ROWS=${BENCH_ROWS:-5000000}
fresh bench_claim
load 10000
settle

fresh bench_claim_state
load "$ROWS"
settle
pairs "$PAIRS" claim_state claim_base
report_pairs "claim: $ROWS rows" '<=' 1.25 "us/row"

fresh bench_claim_state
for priority in 1 2 3 4 5 6 7 8 9 10; do
  load "10000, priority => -$priority, due_in => '1 day'"
done
load 10000
settle
pairs "$PAIRS" claim_state claim_base
report_pairs "claim: 100,000 future rows ahead" '<=' 1.3 "us/row"

# Ten keys, their holders executing, and 10,000 rows that the engine's own picks have found blocked.
fresh bench_claim_state
for key in 1 2 3 4 5 6 7 8 9 10; do
  load "1001, priority => -1, concurrency_key => 'key $key'"
done
q "CALL bench.pick_all()"
[ "$(q "SELECT count(*) FROM gen_durable.instances WHERE blocked_on IS NOT NULL")" = 10000 ] || die "10,000 rows should be blocked"
load 10000
settle
pairs "$PAIRS" claim_state claim_base
report_pairs "claim: 10,000 blocked rows" '<=' 1.3 "us/row"

# Rows of one key that no pick has met yet: a pick that meets them marks them, once each, so these picks stay, on both
# sides, and the mean has the marking in it.
kept() {
  q "TRUNCATE gen_durable.instances CASCADE"
  [ "$1" = 0 ] || load "$1, priority => -1, concurrency_key => 'key'"
  load 10000
  settle
  q "CALL bench.claim_cost_kept(100, 90)" >"$WORK/kept"
  cut -f2 "$WORK/kept" >>"$WORK/means.$1"
  cut -f1 "$WORK/kept"
}
kept_same_key() { kept 10000; }
kept_no_key() { kept 0; }
fresh bench_claim_state
pairs "$PAIRS" kept_same_key kept_no_key
report_pairs "claim: 10,000 same-key rows ahead" '<=' 1.3 "us/row"
mapfile -t means_key <"$WORK/means.10000"
mapfile -t means_no_key <"$WORK/means.0"
note "with the marking: $(median "${means_key[@]}") : $(median "${means_no_key[@]}") us/row"

fresh bench_claim_state
load 15000
q "SELECT count(*) FROM gen_durable.pick('bench', 'w', 5000, '1 day')" >/dev/null
settle
pairs 9 claim_state claim_base
report_pairs "claim: 5,000 executing rows" '<=' 1.1 "us/row"
