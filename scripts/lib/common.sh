# shellcheck shell=bash
# What the commands of this folder share: messages, the temporary folder, and undoing everything at the end.
#
# A command sources this file, which sources the others, and then calls by turns:
#   need_packages KIND...   what is missing comes through apt       (packages.sh)
#   make_work               a private temporary folder, $WORK
#   copy_tree               the checkout as it is, in $WORK/src     (build.sh)
#   build_extension         builds and installs that copy           (build.sh)
#   server_create, server_start   a server of its own               (server.sh)
# Whatever ends the command, the trap stops every server below $WORK, ends what `run` started, and removes $WORK.

set -Eeuo pipefail
trap 'printf "%s: stopped at %s line %s\n" "${0##*/}" "${BASH_SOURCE[0]}" "$LINENO" >&2' ERR

LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
WORK=
KEEP=
declare -A RUNNING=()

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# The server refuses root, so under root everything but apt runs as the packages' own user. Called once that user exists.
choose_user() {
  AS=(env)
  if [ "$(id -u)" = 0 ]; then
    SERVER_USER=postgres
    getent passwd postgres >/dev/null || SERVER_USER=nobody
    AS=(setpriv "--reuid=$SERVER_USER" "--regid=$(id -g "$SERVER_USER")" --init-groups env)
  else
    SERVER_USER=$(id -un)
  fi
}

# A path of a Unix socket holds some hundred bytes at most, so a long TMPDIR is not followed.
make_work() {
  local base=${TMPDIR:-/tmp}
  [ "${#base}" -le 40 ] && [ -d "$base" ] || base=/tmp
  choose_user
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  WORK=$(mktemp -d "$base/gd.XXXXXX")
  trap undo EXIT
  mkdir "$WORK/s" "$WORK/tmp"
  own "$WORK"
  AS+=("HOME=$WORK" "TMPDIR=$WORK/tmp" "PATH=$BINDIR:$PATH" LC_ALL=C.UTF-8)
  cd "$WORK"
}

own() {
  if [ "$(id -u)" = 0 ]; then chown -R "$SERVER_USER:" "$@"; fi
}

as_server() { "${AS[@]}" "$@"; }

# start COMMAND...: in the background, as the unprivileged user, in a group of its own; sets STARTED to its process id.
start() {
  setsid "${AS[@]}" "$@" </dev/null &
  STARTED=$!
  RUNNING[$STARTED]=$1
}

# run SECONDS COMMAND...: the same, waited for within a time. In the background all the same, because bash answers a
# signal at once only while it waits.
run() {
  local status=0
  start timeout -k 15 "$@"
  wait "$STARTED" || status=$?
  unset "RUNNING[$STARTED]"
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then say "not finished after $1 s: ${*:2}"; fi
  return "$status"
}

# end_started: asks what still runs to end, and ends what has not after five seconds.
end_started() {
  local pid tries
  for pid in "${!RUNNING[@]}"; do kill -TERM -- "-$pid" 2>/dev/null; done
  for pid in "${!RUNNING[@]}"; do
    for ((tries = 0; tries < 50; tries++)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    unset "RUNNING[$pid]"
  done
}

undo() {
  local status=$?
  trap '' INT TERM HUP
  trap - EXIT ERR
  set +e
  end_started
  cd /
  if [ -n "$KEEP" ] && [ -e "$WORK/data/postmaster.pid" ]; then
    server_describe >&2
  else
    servers_stop
    rm -rf "$WORK"
  fi
  exit "$status"
}

# shellcheck source=scripts/lib/packages.sh
. "$LIB/packages.sh"
# shellcheck source=scripts/lib/build.sh
. "$LIB/build.sh"
# shellcheck source=scripts/lib/server.sh
. "$LIB/server.sh"
