# shellcheck shell=bash
# No-op SQL steps a second through 2 executors: with commit groups, and one durable commit a step, against pgbench -N, which
# writes two rows a transaction, at 2 clients.
fresh bench_executors
as_server "$BINDIR/pgbench" -q -i -s 10 "$DB" >"$WORK/out" 2>&1 || die "pgbench -i failed"
q "CREATE FUNCTION noop(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN
     IF ctx.state::int > 0 THEN RETURN gen_durable.next_step(''start'', to_jsonb(ctx.state::int - 1)); END IF;
     RETURN gen_durable.done(); END'"
q "SELECT gen_durable.register_fsm('noop', 'noop(gen_durable.job)', queue => 'noop')" >"$WORK/out"
q "SELECT gen_durable.set_queue('noop', executors => 2)" >"$WORK/out"

# executors_side GROUP INSTANCES: ten steps an instance; steps a second from the commit that lets them run to the last's end.
executors_side() {
  q "ALTER DATABASE $DB SET gen_durable.commit_group = $1"
  q "TRUNCATE gen_durable.instances CASCADE"
  q "SELECT gen_durable.pause('noop')" >"$WORK/out"
  q "SELECT count(*) FROM gen_durable.insert_all('noop', (SELECT jsonb_agg('{\"state\": 9}'::jsonb) FROM generate_series(1, $2)))" >"$WORK/out"
  q "VACUUM ANALYZE gen_durable.instances"
  q "SELECT clock_timestamp() AS start \\gset
     SELECT gen_durable.resume('noop');
     DO \$\$ BEGIN LOOP
       EXIT WHEN NOT EXISTS (SELECT FROM gen_durable.instances WHERE finished_at IS NULL);
       COMMIT; PERFORM pg_sleep(0.005);
     END LOOP; END \$\$;
     SELECT round($2 * 10 / extract(epoch FROM max(finished_at) - :'start')) FROM gen_durable.instances" | tail -n 1
}
executors_grouped() { executors_side 60 "$((STEPS_A_RUN / 20))"; }
executors_single() { executors_side 1 "$((STEPS_A_RUN / 200))"; }
executors_pgbench() { as_server "$BINDIR/pgbench" -n -N -M prepared -c 2 -j 2 -T "$SECONDS_A_RUN" "$DB" | sed -n 's/^tps = \([0-9.]*\).*/\1/p'; }

executors_speeds=()
for ((i = 0; i < PAIRS; i++)); do executors_speeds+=("$(executors_grouped)"); done
report "executors: commit groups, steps/s" "$(median "${executors_speeds[@]}")" '>=' 15000 "each: ${executors_speeds[*]}"
pairs "$PAIRS" executors_single executors_pgbench
report_pairs "executors: a commit a step" '>=' 1 "steps/s, pgbench -N transactions/s"
