# shellcheck shell=bash
# Limits: steps a second, batches of 100, 4 clients, as steps has them, with every row under one hot gate of 1,000 slots in 8
# shards, or one hot rate limit in 8 shards whose tokens never run out, against rows without limits; and the cost of a
# claim with BENCH_BLOCKED rows (10000) ahead that wait for one key of a limit. That rows without limits pay nothing is what steps and
# claim measure; here, what the mere presence of limits costs them.
fresh bench_limits
q "SELECT gen_durable.set_concurrency_limit('gate', 1000, 8), gen_durable.set_rate_limit('rate', 2000000000, '1 s', shards => 8)" >/dev/null

limits_side() { # COLUMN VALUE SCRIPT
  [ "$1" = none ] || q "CREATE OR REPLACE FUNCTION bench.limited() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN NEW.$1 := '$2'; RETURN NEW; END \$\$;
    CREATE TRIGGER limited BEFORE INSERT ON gen_durable.instances FOR EACH ROW EXECUTE FUNCTION bench.limited()"
  steps_side gen_durable.instances 4 100 "$STEPS_A_RUN" "$3"
  cat "$WORK/cpu.gen_durable.instances" >>"$WORK/cpu.$1"
  rm "$WORK/cpu.gen_durable.instances"
  [ "$1" = none ] || q "DROP TRIGGER limited ON gen_durable.instances"
}
limits_none() { limits_side none - steps_engine; }
limits_gate() { limits_side concurrency_key gate steps_engine; }
limits_rate() { limits_side rate_limit rate steps_rate; }

pairs "$PAIRS" limits_gate limits_none
report_pairs "limits: one hot gate : none" '>=' 0.9 "steps/s"
report_cpu
pairs "$PAIRS" limits_rate limits_none
report_pairs "limits: one hot rate : none" '>=' 0.95 "steps/s"
report_cpu
q "SELECT count(*) FROM gen_durable.buckets WHERE available < 0 OR available > capacity" | grep -qx 0 || die "a counter is out of its bounds"

limits_cost() { DB=$1 q "CALL bench.claim_cost(100, 30)"; }
limits_base() { limits_cost bench_limits_base; }
limits_waiting() { limits_cost bench_limits_waiting; }
fresh bench_limits_base
q "CALL bench.load('gen_durable.instances', 10000)"
q "VACUUM ANALYZE gen_durable.instances"
fresh bench_limits_waiting
limits_blocked=${BENCH_BLOCKED:-10000}
q "SELECT gen_durable.set_concurrency_limit('gate', 1)" >/dev/null
q "CALL bench.load('gen_durable.instances', $((limits_blocked + 1)), priority => -1, concurrency_key => 'gate')"
q "CALL bench.pick_all()"
[ "$(q "SELECT count(*) FROM gen_durable.instances WHERE blocked_on = 'conc:gate'")" = "$limits_blocked" ] || die "$limits_blocked rows should be blocked"
q "CALL bench.load('gen_durable.instances', 10000)"
q "VACUUM ANALYZE gen_durable.instances"
pairs "$PAIRS" limits_waiting limits_base
report_pairs "limits: $limits_blocked blocked rows ahead" '<=' 1.3 "us/row"
