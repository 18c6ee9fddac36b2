# shellcheck shell=bash
# What an idle server with the extension does: nothing queued, one worker that waits, polls at their longest, as in latency. WAL
# written, looks for work, and processor time, against the same server without the library. BENCH_IDLE seconds (60).
idle_seconds=${BENCH_IDLE:-60}
idle_poll=5 # seconds: max_poll_interval as it is by default

# idle_processes: the server's processes, a line each: pid and what it is.
idle_processes() {
  local pid
  for pid in "$1" $(pgrep -P "$1"); do
    printf '%s %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" | sed 's/^postgres: //; s/ *$//')"
  done
}

# idle_cpu PID...: microseconds of processor time that these have used, and what they have waited for.
idle_cpu() { for pid; do awk '{ n += $1 } END { print n / 1e3 }' "/proc/$pid/schedstat"; done | awk '{ n += $1 } END { printf "%.0f", n }'; }
idle_wakes() { awk '/^voluntary_ctxt_switches/ { print $2 }' "/proc/$1/status"; }

# idle_watch SQL: a session that runs a statement stays while the server is watched. Sets idle_wal, bytes; idle_used,
# microseconds; idle_looks, transactions that the session began; and IDLE_DETAIL, a line for each process.
idle_watch() {
  local postmaster session pids pid name before=() lsn locks i
  as_server "$BINDIR/psql" -Xq -d "$DB" -c "$1" >/dev/null 2>&1 &
  session=$!
  q "CHECKPOINT"
  sleep 20 # what a start and the checkpoint leave to be done
  postmaster=$(head -n 1 "$WORK/data/postmaster.pid")
  locks="SELECT split_part(virtualtransaction, '/', 2) FROM pg_locks JOIN pg_stat_activity a USING (pid) WHERE locktype = 'virtualxid' AND a.wait_event_type IN ('Extension', 'Timeout')"
  idle_looks=$(DB=postgres q "$locks")
  lsn=$(DB=postgres q "SELECT pg_current_wal_insert_lsn()")
  mapfile -t pids < <(idle_processes "$postmaster")
  for pid in "${pids[@]}"; do before+=("$(idle_cpu "${pid%% *}") $(idle_wakes "${pid%% *}")"); done
  sleep "$idle_seconds"
  idle_used=0 IDLE_DETAIL=()
  for ((i = 0; i < ${#pids[@]}; i++)); do
    pid=${pids[i]%% *} name=${pids[i]#* }
    [ -e "/proc/$pid" ] || continue
    read -r cpu wakes <<<"$(idle_cpu "$pid") $(idle_wakes "$pid")"
    cpu=$((cpu - ${before[i]% *})) wakes=$((wakes - ${before[i]#* }))
    idle_used=$((idle_used + cpu))
    IDLE_DETAIL+=("$(printf '%-60.60s %6d us %5d wakes' "$name" "$cpu" "$wakes")")
  done
  idle_wal=$(DB=postgres q "SELECT pg_current_wal_insert_lsn() - '$lsn'")
  idle_looks=$(($(DB=postgres q "$locks") - idle_looks))
  kill "$session"
  wait "$session" 2>/dev/null || true
}

# Databases of other benchmarks have processes too, which end leases and count rows.
DB=postgres
for name in $(q "SELECT datname FROM pg_database WHERE datname LIKE 'bench\\_%'"); do q "DROP DATABASE $name"; done
fresh bench_idle
q "ALTER DATABASE bench_idle SET gen_durable.poll_interval = '${idle_poll}s'"
idle_watch "CALL gen_durable.wait('{bench}', '1 hour')"
report "idle: bytes of WAL" "$idle_wal" "=" 0 "in $idle_seconds s"
report "idle: looks for work" "$idle_looks" '<=' "$((idle_seconds / idle_poll))" "by the worker that waits; one each $idle_poll s would be $((idle_seconds / idle_poll))"
for line in "${IDLE_DETAIL[@]}"; do note "  $line"; done
idle_with=$idle_used
server_stop
printf "shared_preload_libraries = ''\n" | as_server tee -a "$WORK/data/postgresql.conf" >/dev/null
server_start
idle_watch "SELECT pg_sleep(3600)"
for line in "${IDLE_DETAIL[@]}"; do note "  bare: $line"; done
server_stop
as_server sed -i "\$d" "$WORK/data/postgresql.conf"
server_start
report "idle: % of a core above a bare server" "$(calc "($idle_with - $idle_used) / $idle_seconds / 1e4")" '<=' 0.2 "$idle_with : $idle_used us in $idle_seconds s"
