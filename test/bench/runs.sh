# shellcheck shell=bash
# The run store: claims of 100 and commits with documents of 2 kB against the engine's picks and completes with the same
# documents, as many rows of each, a hundred runs to a tenant, all due; claims where as many are of ten tenants; a page of a
# list at any depth; and that nobody waits for a row which all share. The names of the runs grow.
RUNS=${BENCH_RUNS:-1000000}
TENANTS=$((RUNS / 100))

runs_load() { # DATABASE TENANTS
  fresh "$1"
  q "\\i $BENCH_DIR/runs.sql"
  q "CALL bench.load_runs($RUNS, $2)"
}
runs_settle() { q "VACUUM ANALYZE gen_durable.instances, gen_durable.runs, gen_durable.run_listings" && q "CHECKPOINT"; }
# Prints the cost of a claim, and keeps that of a commit.
runs_cost() { # DATABASE PROCEDURE
  DB=$1 q "CALL bench.$2(100, 100)" >"$WORK/cost.$2"
  cut -f2 "$WORK/cost.$2" >>"$WORK/commits.$2"
  cut -f1 "$WORK/cost.$2"
}
runs_runs() { runs_cost bench_runs run_cost; }
runs_steps() { runs_cost bench_runs step_cost; }
runs_ten() { runs_cost bench_runs_ten run_cost; }

runs_load bench_runs "$TENANTS"
q "CALL bench.load_documents($RUNS)"
runs_settle
pairs "$PAIRS" runs_runs runs_steps
report_pairs "runs: claim : pick" '<=' 1.3 "us/row"
mapfile -t commits <"$WORK/commits.run_cost"
mapfile -t completes <"$WORK/commits.step_cost"
runs_ratios=()
for i in "${!commits[@]}"; do runs_ratios+=("$(calc "${completes[i]} / ${commits[i]}")"); done
report "runs: commits : completes" "$(median "${runs_ratios[@]}")" '>=' 0.8 \
  "$(median "${commits[@]}") : $(median "${completes[@]}") us/row; ratios $(printf '%.3g ' "${runs_ratios[@]}")"

runs_slowest=0
for depth in 0 1 25 50 75 99; do
  for scope in system "tenant:tenant 7"; do
    ms=$(q "CALL bench.list_cost('$scope', $depth)")
    runs_slowest=$(calc "($ms > $runs_slowest ? $ms : $runs_slowest)")
  done
done
report "runs: a page of a list" "$runs_slowest" '<=' 2 "ms, the slowest of all runs' and one tenant's at six depths"

# A client that has inserted, claimed, committed and ended runs of a tenant, and is still in its transaction, is in nobody's
# way who does the same.
q "BEGIN; SELECT bench.run_life('first'); SELECT pg_sleep(5); COMMIT" >/dev/null &
until [ "$(q "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")" = 1 ]; do sleep 0.1; done
waits=0
q "SET lock_timeout = '1 s'; SELECT bench.run_life('second')" >/dev/null || waits=1
wait
report "runs: rows that all share" "$waits" '=' 0 "waits beside an open transaction that inserted, claimed, committed and ended"

runs_load bench_runs_ten 10
runs_settle
pairs "$PAIRS" runs_runs runs_ten
report_pairs "runs: $TENANTS tenants : 10" '<=' 1.3 "us/row"
