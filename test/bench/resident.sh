# shellcheck shell=bash
# Whether the memory of the background processes grows with the steps that they have served: BENCH_STEPS million steps (1; the bar
# is meant for 10) over 100,000 instances of a fed queue, autovacuum as a server has it by default. What belongs to a process alone
# (RssAnon; pages of shared memory are counted by whoever has touched them) at the start, after each quarter, and at the end.
resident_million=${BENCH_STEPS:-1}
fresh bench_resident
q "SELECT gen_durable.set_queue('bench', concurrency => 400, prefetch => 400)" >/dev/null
q "CALL bench.load('gen_durable.instances', 100000)"
q "VACUUM ANALYZE gen_durable.instances"
q "ALTER SYSTEM SET autovacuum = on"
q "SELECT pg_reload_conf()" >/dev/null
resident_kinds=(launcher maintainer scheduler)
declare -A resident_pids=() resident_first=() resident_last=()
for kind in "${resident_kinds[@]}"; do
  resident_pids[$kind]=$(q "SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable $kind' AND coalesce(datname, current_database()) = current_database()")
done
resident_note() { # WHEN
  local kind line=
  for kind in "${resident_kinds[@]}"; do
    resident_last[$kind]=$(awk '/^RssAnon/ { print $2 }' "/proc/${resident_pids[$kind]}/status") || die "the $kind has ended on the way"
    line+=" $kind $(awk '/^VmRSS/ { r = $2 } /^RssAnon/ { a = $2 } END { printf "%d (%d with shared memory)", a, r }' "/proc/${resident_pids[$kind]}/status");"
  done
  note "  $1, kB:$line"
}
resident_steps() { q "SELECT sum(outcome_next) FROM gen_durable.stats"; }
resident_note "start"
for quarter in 1 2 3 4; do
  # A take may come back short.
  resident_goal=$((resident_million * 250000 * quarter))
  while resident_done=$(resident_steps) && [ "$resident_done" -lt "$resident_goal" ]; do
    pgbench_run steps_take -c 4 -j 2 -t "$(((resident_goal - resident_done) / 400 + 1))" >/dev/null
  done
  resident_note "after $resident_done steps"
  if [ "$quarter" = 1 ]; then
    for kind in "${resident_kinds[@]}"; do resident_first[$kind]=${resident_last[$kind]}; done
  fi
done
q "ALTER SYSTEM SET autovacuum = off"
q "SELECT pg_reload_conf()" >/dev/null
for kind in "${resident_kinds[@]}"; do
  report "resident: $kind, end : first quarter" "$(calc "${resident_last[$kind]} / ${resident_first[$kind]}")" '<=' 1.1 \
    "${resident_last[$kind]} : ${resident_first[$kind]} kB after $resident_million million steps"
done
