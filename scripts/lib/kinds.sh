# shellcheck shell=bash
# The kinds of tests, each as one function kind_NAME that runs it and calls tally once.
#
# A kind whose folder does not exist says so and counts nothing. Where the folder exists, running nothing is a failure.

PASSED=0
FAILED=0
SUMMARY=()

# tally KIND PASSED FAILED [NOTE]
tally() {
  PASSED=$((PASSED + $2))
  FAILED=$((FAILED + $3))
  SUMMARY+=("$(printf '%-13s %5d passed %5d failed %5d s%s' "$1" "$2" "$3" "$((SECONDS - STARTED_AT))" "${4:+  $4}")")
}

# logged FILE SECONDS COMMAND...: shows what the command prints and keeps it in FILE. Returns the command's status.
logged() {
  local log=$1 limit=$2 left=$((DEADLINE - SECONDS)) out tee_pid status=0
  shift 2
  [ "$limit" -lt "$left" ] || limit=$left
  if [ "$limit" -le 0 ]; then say "no time is left for: $*"; return 1; fi
  exec {out}> >(exec tee "$log")
  tee_pid=$!
  run "$limit" "$@" >&"$out" 2>&1 || status=$?
  exec {out}>&-
  wait "$tee_pid" || true
  return "$status"
}

excerpt() {
  local file=$1 lines=$2
  [ -s "$file" ] || return 0
  say "--- ${file#"$WORK/"}"
  head -n "$lines" "$file"
  [ "$(wc -l <"$file")" -le "$lines" ] || say "... (cut after $lines lines)"
}

server_log_tail() {
  [ -s "$WORK/log" ] || return 0
  say "--- the server's log, its end"
  tail -n 40 "$WORK/log"
}

# pg_regress prints "test x ... ok" up to version 15 and "ok 1 - x" from 16 on.
# tally_regress KIND LOG STATUS LISTED
tally_regress() {
  local passed failed
  passed=$(grep -cE '^(test|    ) *[^ ]+ +\.\.\. ok|^ok [0-9]+ ' "$2") || true
  failed=$(grep -cE '\.\.\. FAILED|^not ok [0-9]+ ' "$2") || true
  [ "$4" -le $((passed + failed)) ] || failed=$(($4 - passed))
  [ "$3" = 0 ] || [ "$failed" -gt 0 ] || failed=1
  tally "$1" "$passed" "$failed"
  [ "$failed" = 0 ]
}

kind_regress() {
  local opts tests status=0
  read -ra tests <<<"$(make_variable REGRESS)"
  read -ra opts <<<"$(make_variable REGRESS_OPTS)"
  if [ ! -d sql ] || [ ${#tests[@]} = 0 ]; then nothing regress sql; return; fi
  mkdir -p "$WORK/out/regress"
  own "$WORK/out"
  logged "$WORK/out/regress.log" 900 "$PGXS_DIR/src/test/regress/pg_regress" "${opts[@]}" --bindir="$BINDIR" \
    --outputdir="$WORK/out/regress" "${tests[@]}" || status=$?
  tally_regress regress "$WORK/out/regress.log" "$status" ${#tests[@]} || {
    excerpt "$WORK/out/regress/regression.diffs" 300
    server_log_tail
  }
}

kind_isolation() {
  local opts tests status=0
  read -ra tests <<<"$(make_variable ISOLATION)"
  read -ra opts <<<"$(make_variable ISOLATION_OPTS)"
  if [ ! -d test/isolation ] || [ ${#tests[@]} = 0 ]; then nothing isolation test/isolation; return; fi
  if [ ! -x "$PGXS_DIR/src/test/isolation/pg_isolation_regress" ]; then
    tally isolation 0 0 "skipped: this PostgreSQL comes without the isolation tester"
    return
  fi
  mkdir -p "$WORK/out/isolation"
  own "$WORK/out"
  logged "$WORK/out/isolation.log" 900 "$PGXS_DIR/src/test/isolation/pg_isolation_regress" "${opts[@]}" --bindir="$BINDIR" \
    --outputdir="$WORK/out/isolation" "${tests[@]}" || status=$?
  tally_regress isolation "$WORK/out/isolation.log" "$status" ${#tests[@]} || {
    excerpt "$WORK/out/isolation/regression.diffs" 300
    server_log_tail
  }
}

# prove's last lines tell all: "Files=3, Tests=40, ..." and, where something failed, a line a file:
# "t/x.pl (Wstat: 256 Tests: 12 Failed: 2)". A file that died or broke its plan without a failed test counts as one.
# tally_prove KIND STATUS LOG...
tally_prove() {
  local kind=$1 status=$2 tests failed broken skipped
  shift 2
  tests=$(sed -n 's/^Files=[0-9]*, Tests=\([0-9]*\).*/\1/p' "$@" | awk '{ n += $1 } END { print n + 0 }')
  failed=$(sed -n 's/.*(Wstat: .* Failed: \([0-9]*\))$/\1/p' "$@" | awk '{ n += $1 } END { print n + 0 }')
  broken=$(grep -hcE '\(Wstat: .* Failed: 0\)$' "$@" | awk '{ n += $1 } END { print n + 0 }')
  skipped=$(grep -hE '\.\. skipped' "$@" | sed -E 's/^(\[[0-9:]+\] )?([^ ]+) .*skipped:? */\2: /' | paste -sd ';' -) || true
  if [ "$status" != 0 ] && [ $((failed + broken)) = 0 ]; then broken=1; fi
  tally "$kind" $((tests - failed)) $((failed + broken)) "${skipped:+skipped: $skipped}"
  [ $((failed + broken)) = 0 ]
}

# $DATABASE anew, with the extensions named.
fresh_database() {
  local extension
  query "DROP DATABASE IF EXISTS $1" && query "CREATE DATABASE $1" || return
  for extension in "${@:2}"; do query "CREATE EXTENSION $extension" -d "$1" || return; done
}

kind_pgtap() {
  local files=() status=0
  mapfile -t files < <(find test/pgtap -maxdepth 1 -name '*.sql' 2>/dev/null | sort)
  if [ ${#files[@]} = 0 ]; then nothing pgtap test/pgtap; return; fi
  if ! [ -e "$("$PG_CONFIG" --sharedir)/extension/pgtap.control" ]; then
    tally pgtap 0 0 "skipped: this PostgreSQL has no pgTAP"
    return
  fi
  if ! fresh_database gd_pgtap pgtap gen_durable 2>"$WORK/out/pgtap.err"; then
    cat "$WORK/out/pgtap.err"
    tally pgtap 0 1 "the extension cannot be created"
    return
  fi
  logged "$WORK/out/pgtap.log" 600 pg_prove --psql-bin "$BINDIR/psql" -d gd_pgtap --timer "${files[@]}" || status=$?
  tally_prove pgtap "$status" "$WORK/out/pgtap.log" || server_log_tail
}

kind_tap() {
  local files=() status=0 log more=()
  mapfile -t files < <(find test/tap/t -maxdepth 1 -name "*${GD_TAP:-}*.pl" 2>/dev/null | sort)
  if [ ${#files[@]} = 0 ]; then nothing tap test/tap; return; fi
  if [ ! -d "$PGXS_DIR/src/test/perl" ]; then
    tally tap 0 0 "skipped: this PostgreSQL comes without its Perl modules"
    return
  fi
  mkdir -p "$WORK/tap"
  own "$WORK/tap"
  # From version 18 on, the new servers learn where the extension is from a file that PostgreSQL's own modules read.
  if [ -n "${GD_EXTENSION_CONTROL_PATH:-}" ]; then
    printf '%s\n' "$SETTINGS" >"$WORK/tap/temp.conf"
    more=("TEMP_CONFIG=$WORK/tap/temp.conf")
  fi
  # The servers of these tests are their own: what points at ours would mislead them.
  logged "$WORK/out/tap.log" 1300 env -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE "PG_REGRESS=$PGXS_DIR/src/test/regress/pg_regress" \
    "PERL5LIB=$PGXS_DIR/src/test/perl:$WORK/src/test/tap/lib" "TESTDIR=$WORK/tap" "TESTDATADIR=$WORK/tap/tmp_check" \
    "TESTLOGDIR=$WORK/tap/tmp_check/log" "top_builddir=$WORK/tap" "${more[@]}" prove --timer "-j$(nproc)" "${files[@]}" || status=$?
  tally_prove tap "$status" "$WORK/out/tap.log" || {
    sed -n 's/^\([^ ]*\.pl\) *(Wstat: .*/\1/p' "$WORK/out/tap.log" | while IFS= read -r log; do
      log=$(basename "$log" .pl)
      for log in "$WORK/tap/tmp_check/log/regress_log_$log" "$WORK/tap/tmp_check/log/${log}_"*.log; do
        [ ! -s "$log" ] || { say "--- ${log#"$WORK/"}, its end"; tail -n 40 "$log"; }
      done
    done
  }
}

# The clients are programs in several languages that print TAP.
kind_clients() {
  local files logs=() status=0 extension runner
  if [ ! -d test/clients ]; then nothing clients test/clients; return; fi
  if ! fresh_database gd_clients gen_durable 2>"$WORK/out/clients.err"; then
    cat "$WORK/out/clients.err"
    tally clients 0 1 "the extension cannot be created"
    return
  fi
  for extension in py sh pl js mjs; do
    mapfile -t files < <(find test/clients -maxdepth 1 -name "*.$extension" -type f | sort)
    [ ${#files[@]} -gt 0 ] || continue
    case $extension in
      py) runner=/usr/bin/python3 ;;
      sh) runner=bash ;;
      pl) runner=perl ;;
      *js) runner=node; command -v node >/dev/null || { say "no node here: ${files[*]} skipped"; continue; } ;;
    esac
    logs+=("$WORK/out/clients.$extension.log")
    logged "$WORK/out/clients.$extension.log" 600 env PGDATABASE=gd_clients prove --timer -e "$runner" "${files[@]}" || status=$?
  done
  if [ ${#logs[@]} = 0 ]; then nothing clients test/clients; return; fi
  tally_prove clients "$status" "${logs[@]}" || server_log_tail
}

# The examples of README.md and docs/ run as they stand there.
kind_docs() {
  local log=$WORK/out/docs.log status=0 passed failed
  if [ ! -x test/docs/check ]; then nothing docs test/docs; return; fi
  logged "$log" 300 test/docs/check || status=$?
  passed=$(grep -cE '^ok\b' "$log") || true
  failed=$(grep -cE '^not ok\b' "$log") || true
  [ "$status" = 0 ] || [ "$failed" -gt 0 ] || failed=1
  tally docs "$passed" "$failed"
}

kind_traceability() {
  local log=$WORK/out/traceability.log status=0 passed failed
  if [ ! -x test/traceability/check ]; then nothing traceability test/traceability; return; fi
  logged "$log" 120 test/traceability/check || status=$?
  passed=$(grep -cE '^ok\b' "$log") || true
  failed=$(grep -cE '^not ok\b' "$log") || true
  if [ "$status" = 0 ]; then
    [ $((passed + failed)) -gt 0 ] || passed=1
  else
    [ "$failed" -gt 0 ] || failed=1
  fi
  tally traceability "$passed" "$failed"
}

# nothing KIND FOLDER: an empty folder is a mistake, none at all is a kind that does not exist here.
nothing() {
  if [ -d "$2" ]; then
    say "$2 is there, but nothing in it ran"
    tally "$1" 0 1 "nothing ran"
  else
    tally "$1" 0 0 "none here"
  fi
}
