# shellcheck shell=bash
# The demo's work by two programs over psql, one in plain calls and one in batches.
#
# packages, all, finished and needed are the demo's, which uses what is set here:
# shellcheck disable=SC2034,SC2154

WHO='the workers' SERVER_LINES=()

prepare() { as_server "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -f "$WORK/src/examples/report/machine.sql" >/dev/null; }

# start_worker KIND NAME: the process id comes in STARTED.
start_worker() {
  start env PGUSER=report_worker DOC="$DOC" "$WORK/src/examples/report/worker-$1.sh" "$2" >"$WORK/worker-$2.out" 2>"$WORK/worker-$2.log"
}

begin_work() {
  local more
  tell "two workers start, \"plain\" and \"batch\""
  start_worker plain plain
  start_worker batch batch
  batch=$STARTED
  # A machine with very many packages gets more of both, if it has the processors for them.
  for ((more = 2; more <= packages / 1000 + 1 && more <= $(nproc) / 2; more++)); do
    start_worker plain "plain-$more"
    start_worker batch "batch-$more"
  done
}

held_by_the_living() { echo "locked_by <> '${killed:+batch}'"; }

kill_in_mid_work() {
  sleep 0.2 # until it is well into the batch that it took when it handed in the last
  stop_to_kill "$batch" batch || return
  kill -KILL -- "-$batch"
  wait "$batch" 2>/dev/null || true
  unset "RUNNING[$batch]"
  tell "worker batch was killed (SIGKILL) with $HOLDS steps in its hands, after $finished of $all packages"
  start_worker batch batch-again
}

# What comes with time, leases that ran out among it, is the caller's to call for: nothing runs in this server by itself.
come_due() {
  local reaped
  reaped=$(query 'SELECT reaped FROM gen_durable.tick()')
  [ "$reaped" = 0 ] || tell "steps taken back from the dead: $reaped (not handed in within $LEASE)"
}

end_work() {
  local begun
  end_started || true
  begun=$(cat "$WORK"/worker-*.log | grep -cE '^(list|read|measure|join|publish) ')
  tell "the report is done: it took $needed steps, and $((begun - needed)) more were begun because their worker or the server died"
}
