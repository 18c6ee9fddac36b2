# shellcheck shell=bash
# A fan-out of 10,000 children and their join, against as many plain steps, by 4 workers in batches of 100: from the start
# of the parent's step until the parent is done. The plain steps are of instances that are there already, so making the
# children is a cost of the fan-out alone.
fresh bench_fanin
q "INSERT INTO bench.children
   SELECT jsonb_agg(jsonb_build_object('fsm', 'bench', 'step', 'a', 'queue', 'bench',
                                       'state', jsonb_build_object('order', g, 'customer', 'customer ' || g % 1000)))
   FROM generate_series(1, 10000) g"

# work_off DONE [SQL]: runs the SQL, then the workers until nothing is left; prints steps a second.
work_off() {
  local since pids=() pid spent
  since=$(date +%s%N)
  [ -z "${2-}" ] || q "$2"
  for _ in 1 2 3 4; do
    q "CALL bench.work(100)" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  spent=$(($(date +%s%N) - since))
  [ "$(q "SELECT count(*) FROM gen_durable.instances WHERE status = 'done'")" = "$1" ] || die "not all instances are done"
  calc "10002e9 / $spent"
}
fan_in() {
  q "TRUNCATE gen_durable.instances CASCADE"
  q "SELECT gen_durable.insert('bench', step => 'fan', queue => 'bench')" >/dev/null
  q "VACUUM ANALYZE gen_durable.instances"
  work_off 10001 "CALL bench.fan_out()"
}
plain_steps() {
  q "TRUNCATE gen_durable.instances CASCADE"
  q "CALL bench.load('gen_durable.instances', 10002)"
  q "VACUUM ANALYZE gen_durable.instances"
  work_off 10002
}
fan_in >/dev/null
plain_steps >/dev/null
pairs "$PAIRS" fan_in plain_steps
report_pairs "fan-in: 10,000 children : plain" '>=' 0.5 "steps/s"
