# shellcheck shell=bash
# The demo's work by steps in SQL: the server's executors run them.
#
# packages, all, finished and needed are the demo's, which uses what is set here:
# shellcheck disable=SC2034,SC2154

WHO='the executors' SERVER_LINES=("shared_preload_libraries = 'gen_durable'")

prepare() {
  local file
  for file in machine steps; do
    as_server "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -f "$WORK/src/examples/report/$file.sql" >/dev/null
  done
}

begin_work() {
  tell "nobody starts a worker: the steps are in the database"
  # Two would be done with few packages before anything could happen to them.
  [ "$packages" -ge 300 ] || query "SELECT gen_durable.set_queue('report', executors => 1)" >/dev/null
}

held_by_the_living() {
  echo "locked_by IN (SELECT 'gen_durable executor ' || pid FROM pg_stat_activity WHERE backend_type = 'gen_durable executor')"
}

# The server takes the death of any of its processes for a danger to what they share: it ends the others and begins anew.
kill_in_mid_work() {
  local pid crashes
  pid=$(query "SELECT substring(min(locked_by) FROM '\d+$') FROM gen_durable.instances WHERE status = 'executing' AND $(held_by_the_living)")
  [ -n "$pid" ] || return
  crashes=$(server_crashes)
  stop_to_kill "$pid" "gen_durable executor $pid" || return
  kill -KILL "$pid"
  tell "executor $pid was killed (SIGKILL) with $HOLDS step in its hands, after $finished of $all packages"
  until [ "$(server_crashes)" -gt "$crashes" ] && as_server "$BINDIR/pg_isready" -q; do
    [ "$SECONDS" -lt "$DEADLINE" ] || die "the server did not begin anew"
    sleep 0.05
  done
}

server_crashes() { grep -c 'all server processes terminated; reinitializing' "$WORK/log" || true; }

come_due() { :; }

end_work() {
  local ran again
  IFS=$'\t' read -r ran again < <(query 'SELECT count(*), count(*) FILTER (WHERE attempt > 0) FROM report.ran')
  tell "the report is done: it took $needed steps; $again of them were begun more than once, because their executor or the server died"
  [ "$ran" = "$needed" ] || die "$ran steps have written that they ran, not $needed"
  tell "equal: the steps that were needed and the rows that they wrote, one each"
}
