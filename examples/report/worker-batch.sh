#!/usr/bin/env bash
# A worker in batches: one call commits the outcomes of the last batch and takes the next.
#
#   worker-batch.sh NAME        (PGHOST, PGDATABASE, PGUSER, ... say where; SIGTERM ends it after the batch in hand)
#
# It starts psql once a batch. Outcomes go in by a file that psql reads into a variable, so nothing is pasted into a
# statement. When the server is away it keeps the outcomes and sends them again: those that were committed all the same are
# answered "stale", the others are committed now.

set -euo pipefail
# shellcheck source=SCRIPTDIR/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

NAME=$1
BATCH=20
FOUND=$(mktemp)
export FOUND # psql reads the file of this name
stop=
trap 'rm -f "$FOUND"' EXIT
trap 'stop=1' TERM INT

# commit_and_take HOW_MANY: prints the jobs taken, a line each. Fails with 2 where there is no server, and with 3 at an error.
commit_and_take() {
  psql -X -q -A -t -v ON_ERROR_STOP=1 -v name="$NAME" -v batch="$1" <<'SQL'
\set found `cat "$FOUND"`
SELECT coalesce(jsonb_agg(outcome || jsonb_build_object('token', token)), '[]') AS outcomes
  FROM report.outcomes(:'found') \gset
CALL gen_durable.commit_and_take(:'outcomes', 'report', :'name', :batch) \gset
SELECT report.job_line(job) FROM jsonb_populate_recordset(NULL::gen_durable.job, :'jobs') AS job;
SQL
}

# keep_claims JOBS: a batch may take longer than a lease, so the worker says now and then that it is alive.
keep_claims() {
  psql -X -q -A -t -v tokens="$(cut -f1 <<<"$1")" <<'SQL' >/dev/null || true
SELECT count(*) FROM gen_durable.heartbeat(string_to_array(:'tokens', E'\n')::uuid[]);
SQL
}

while [ -z "$stop" ]; do
  status=0
  jobs=$(commit_and_take "$BATCH") || status=$?
  # What the server refuses now it would refuse again, so only its absence keeps the outcomes. Steps whose outcome is
  # dropped run again when their leases end.
  [ "$status" = 2 ] || : >"$FOUND"
  [ "$status" = 0 ] || { sleep 0.5; continue; }
  [ -n "$jobs" ] || { sleep 0.2; continue; }
  heard=$SECONDS
  while IFS= read -r job; do
    do_step "$job"
    if [ "$SECONDS" != "$heard" ]; then keep_claims "$jobs"; heard=$SECONDS; fi
  done <<<"$jobs" >"$FOUND"
done

# The last outcomes, with nothing taken in return.
psql -X -q -A -t -v ON_ERROR_STOP=1 <<'SQL' >/dev/null
\set found `cat "$FOUND"`
SELECT result
  FROM gen_durable.complete_many((SELECT coalesce(jsonb_agg(outcome || jsonb_build_object('token', token)), '[]')
                                    FROM report.outcomes(:'found')));
SQL
