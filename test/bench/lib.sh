# shellcheck shell=bash disable=SC2034 # the files that source this read what it sets
# The harness of the benchmarks: interleaved runs and their ratios, on a throw-away server.
#
# What a benchmark uses:
#   fresh NAME             a new database with the extension, the yardstick and the helpers; it becomes DB
#   q SQL                  statements in DB; bare rows
#   steps_side TABLE CLIENTS BATCH STEPS SCRIPT [ARGUMENT...]   steps a second of a pgbench script on fresh rows
#   pairs N A B            runs the commands A and B by turns N times; fills LEFT, RIGHT and RATIOS
#   median NUMBER...       the median
#   report NAME FIGURE OP BAR [DETAIL]              one line of the result

BENCH_DIR=test/bench # below $WORK/src, where the copy of the checkout is
PAIRS=${BENCH_PAIRS:-7}
SECONDS_A_RUN=${BENCH_SECONDS:-6}
STEPS_A_RUN=${BENCH_RUN:-200000}
DB=postgres
MISSED=0
LEFT=() RIGHT=() RATIOS=()

note() { printf '%s\n' "$*" >&2; }

# One server for all.  Autovacuum is off except where a benchmark turns it on, because it would come at a moment of its own
# choosing and hit one side of a pair; checkpoints are asked for, not timed, for the same reason.  Everything that bears
# on durability is as PostgreSQL has it by default.
start_bench_server() {
  need_packages server
  make_work
  copy_tree
  build_extension
  cd "$WORK/src" || exit
  as_server make -s -C "$BENCH_DIR/floor" "PG_CONFIG=$PG_CONFIG" with_llvm=no >"$WORK/build.log" 2>&1 || build_failed
  if [ -n "$SETTINGS" ]; then
    as_server make -s -C "$BENCH_DIR/floor" "PG_CONFIG=$PG_CONFIG" with_llvm=no install "DESTDIR=$WORK/inst" >>"$WORK/build.log" 2>&1 || build_failed
  else
    make -s -C "$BENCH_DIR/floor" "PG_CONFIG=$PG_CONFIG" with_llvm=no install >>"$WORK/build.log" 2>&1 || build_failed
  fi
  server_create "shared_preload_libraries = '${BENCH_PRELOAD-gen_durable}'" "max_connections = 60" "shared_buffers = 2GB" \
    "max_wal_size = 32GB" "checkpoint_timeout = 1h" "autovacuum = off" "jit = off"
  server_start
  export PGOPTIONS='-c client_min_messages=warning'
}

q() { query "$1" -d "$DB"; }

# Only the benchmark's own databases exist at a time, so that disk and cache are theirs.
fresh() {
  DB=postgres
  q "DROP DATABASE IF EXISTS $1"
  q "CREATE DATABASE $1"
  DB=$1
  q "CREATE EXTENSION gen_durable"
  q "\\i $BENCH_DIR/yardstick.sql"
  q "\\i $BENCH_DIR/helpers.sql"
}

# pgbench_run SCRIPT ARGUMENT...: prints transactions a second; fails when a client was lost on the way.
pgbench_run() {
  local script=$BENCH_DIR/scripts/$1.sql
  shift
  if ! as_server "$BINDIR/pgbench" -n -M prepared -f "$script" "$@" "$DB" >"$WORK/out" 2>&1 || grep -q aborted "$WORK/out"; then
    tail -5 "$WORK/out" >&2
    die "pgbench failed on $script"
  fi
  sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$WORK/out"
}

# Processor time that the server's ended sessions have used, in hundredths of a second.
server_cpu() { awk '{ print $16 + $17 }' "/proc/$(head -n 1 "$WORK/data/postmaster.pid")/stat"; }

# A run is a number of steps and not a time, so that what it leaves behind in table and indexes does not depend on how
# busy the machine is. Steps are counted by the row versions that they leave, two each, and not by calls: a claim may
# come back short.
steps_side() { # TABLE CLIENTS BATCH STEPS SCRIPT [ARGUMENT...]
  local table=$1 clients=$2 turns=$(($4 / $2 / $3)) script=$5 before after cpu tps
  shift 5
  q "TRUNCATE $table CASCADE"
  q "CALL bench.load('$table', 100000)"
  q "VACUUM ANALYZE $table"
  before=$(q "SELECT bench.updates('$table')")
  cpu=$(server_cpu)
  tps=$(pgbench_run "$script" -c "$clients" -j 2 -t "$turns" "$@")
  after=$(q "SELECT bench.updates('$table')")
  calc "($(server_cpu) - $cpu) * 2e4 / ($after - $before)" >>"$WORK/cpu.$table"
  echo >>"$WORK/cpu.$table"
  calc "($after - $before) / 2 * $tps / ($turns * $clients)"
}

# report_cpu: what the runs of steps_side since the last report took of the processor, a line of note.
report_cpu() {
  local file values
  for file in "$WORK"/cpu.*; do
    mapfile -t values <"$file"
    note "  ${file##*/cpu.}: $(median "${values[@]}") us of processor time a step"
    rm "$file"
  done
}

calc() { awk "BEGIN { printf \"%.6g\", $1 }"; }

median() {
  printf '%s\n' "$@" | sort -g |
    awk '{ v[NR] = $1 } END { printf "%.6g", (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

# By turns, because the machine's speed drifts: a ratio is taken only between two neighbours.
pairs() {
  local n=$1 left right i
  LEFT=() RIGHT=() RATIOS=()
  for ((i = 0; i < n; i++)); do
    left=$("$2")
    right=$("$3")
    LEFT+=("$left")
    RIGHT+=("$right")
    RATIOS+=("$(calc "$left / $right")")
  done
}

# report_pairs NAME OP BAR UNIT: the median ratio of the pairs just run, with what is behind it.
report_pairs() {
  report "$1" "$(median "${RATIOS[@]}")" "$2" "$3" \
    "$(median "${LEFT[@]}") : $(median "${RIGHT[@]}") $4; ratios $(printf '%.3g ' "${RATIOS[@]}")"
}

report() {
  local verdict
  verdict=$(awk -v f="$2" -v op="$3" -v b="$4" \
    'BEGIN { ok = op == ">=" ? f >= b : op == "<=" ? f <= b : f == b; print ok ? "pass" : "miss" }')
  printf '%-34s %8.3g  %2s %-6s %s  %s\n' "$1" "$2" "$3" "$4" "$verdict" "${5-}"
  [ "$verdict" = pass ] || MISSED=1
}
