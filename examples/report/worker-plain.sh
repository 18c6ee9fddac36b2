#!/usr/bin/env bash
# A worker in plain SQL calls: pick a step, do it, complete it. Each call is a transaction of its own.
#
#   worker-plain.sh NAME        (PGHOST, PGDATABASE, PGUSER, ... say where; SIGTERM ends it after the step in hand)
#
# It keeps one psql session and talks to it through a pipe. Values reach SQL as psql's variables, :'name', which psql
# quotes; nothing is ever pasted into a statement. When the session is lost, it makes another and says its last word again:
# had that been heard, the engine answers that the claim is stale, and no harm is done.

set -euo pipefail
# shellcheck source=SCRIPTDIR/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

NAME=$1
DIR=$(mktemp -d)
export FOUND=$DIR/found # psql reads the file of this name
stop=
trap 'rm -rf "$DIR"' EXIT
trap 'stop=1' TERM INT
trap '' PIPE # writing to a lost session is an error to handle, not the end

PICK="SELECT report.job_line(job) FROM gen_durable.pick('report', :'name') AS job;"
COMPLETE="\\set found \`cat \"\$FOUND\"\`
SELECT gen_durable.complete(token, outcome) FROM report.outcomes(:'found');"

mkfifo "$DIR/in" "$DIR/out"
connect() {
  psql -X -q -A -t -v name="$NAME" <"$DIR/in" >"$DIR/out" &
  session=$!
  exec {to}>"$DIR/in" {from}<"$DIR/out"
}

reconnect() {
  exec {to}>&- {from}<&-
  wait "$session" || sleep 0.5
  connect
}

# Sends statements and reads their rows into ROWS, up to a mark of our own. Fails when the session is gone.
ask() {
  local row
  ROWS=()
  printf '%s\n\\echo end of rows\n' "$1" 1>&"$to" || return
  while IFS= read -r row 0<&"$from"; do
    [ "$row" != 'end of rows' ] || return 0
    ROWS+=("$row")
  done
  return 1
}

connect
while [ -z "$stop" ]; do
  if ! ask "$PICK"; then
    reconnect
  elif [ ${#ROWS[@]} = 0 ]; then
    sleep 0.2
  else
    do_step "${ROWS[0]}" >"$FOUND"
    until ask "$COMPLETE"; do reconnect; done
  fi
done
