# shellcheck shell=bash
# A throw-away server: of its own user, on a private socket, without TCP, in $WORK/data.

# The number is only a part of the socket's name. Not 5432, so that a client which missed PGHOST would find nothing
# rather than the machine's own cluster.
PORT=54329

# server_create [LINE...]: initdb, with the lines added to postgresql.conf.
server_create() {
  as_server "$BINDIR/initdb" -D "$WORK/data" -U postgres -A trust --locale=C.UTF-8 -E UTF8 --no-sync >"$WORK/initdb.log" 2>&1 ||
    { tail -20 "$WORK/initdb.log" >&2; die "initdb failed"; }
  {
    printf "unix_socket_directories = '%s'\nlisten_addresses = ''\nport = %s\n" "$WORK/s" "$PORT"
    printf "lc_messages = 'C'\ntimezone = 'UTC'\nlog_timezone = 'UTC'\nlog_line_prefix = '%%m [%%p] %%q%%a '\n"
    printf '%s\n' "$SETTINGS" "$@"
  } | as_server tee -a "$WORK/data/postgresql.conf" >/dev/null
  export PGHOST=$WORK/s PGUSER=postgres PGDATABASE=postgres PGPORT=$PORT
  unset PGOPTIONS PGSERVICE PGPASSFILE PGSSLMODE
}

server_start() {
  as_server "$BINDIR/pg_ctl" -D "$WORK/data" -l "$WORK/log" -w -s start >/dev/null ||
    { tail -20 "$WORK/log" >&2; die "the server does not start"; }
}

server_stop() {
  as_server "$BINDIR/pg_ctl" -D "$WORK/data" -m "${1:-fast}" -w -s stop >/dev/null
}

# Every server whose data lie below $WORK, also those that a test left behind when it was cut short.
servers_stop() {
  local file
  find "$WORK" -name postmaster.pid 2>/dev/null | while IFS= read -r file; do
    as_server "$BINDIR/pg_ctl" -D "${file%/*}" -m immediate -w -t 30 -s stop >/dev/null 2>&1
  done
}

server_describe() {
  local before=
  [ "$(id -u)" != 0 ] || before="setpriv --reuid=$SERVER_USER --regid=$(id -g "$SERVER_USER") --init-groups "
  say "the server stays. To look around:"
  say "  psql -h $WORK/s -p $PORT -U postgres $PGDATABASE"
  say "and to end it:"
  say "  $before$BINDIR/pg_ctl -D $WORK/data -m fast stop && rm -rf $WORK"
}

# query SQL [psql's arguments]: bare rows, fields by tab; fails at the first error.
query() {
  local sql=$1
  shift
  as_server "$BINDIR/psql" -X -q -A -t -F $'\t' -v ON_ERROR_STOP=1 "$@" <<<"$sql"
}
