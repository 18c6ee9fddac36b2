# shellcheck shell=bash
# Which PostgreSQL to use, and what is missing on this machine.
#
# PG_CONFIG in the environment names another PostgreSQL than the suite's; its server packages are then the caller's part.
# What counts is whether a thing is there, not which package brought it, so a machine set up otherwise is left alone.

# The server of Debian's own suite; elsewhere the newest that is here or that apt has.
suite_version() {
  local suite found
  # shellcheck source=/dev/null
  suite=$(. /etc/os-release 2>/dev/null && printf '%s' "${ID:-}:${VERSION_ID:-}") || suite=
  case $suite in
    debian:12) echo 15 ;;
    debian:13) echo 17 ;;
    *)
      found=$(find /usr/lib/postgresql -path '*/lib/pgxs/src/makefiles/pgxs.mk' 2>/dev/null | cut -d/ -f5 | sort -V | tail -1)
      [ -n "$found" ] || found=$(apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -1)
      [ -n "$found" ] || die "no PostgreSQL is known here: name one by PG_CONFIG=.../pg_config"
      echo "$found"
      ;;
  esac
}

# What a kind of work needs: package names of Debian.
packages_of() {
  local v=$PG_MAJOR
  case $1 in
    server)
      echo make gcc libc6-dev libhiredis-dev
      [ -n "$PG_CHOSEN" ] || echo "postgresql-$v" "postgresql-server-dev-$v"
      ;;
    pgtap)
      [ -n "$PG_CHOSEN" ] || echo "postgresql-$v-pgtap"
      echo libtap-parser-sourcehandler-pgtap-perl
      ;;
    # The server's program is in redis-tools, too; its own package would start a service.
    tap) echo perl libipc-run-perl pgbouncer redis-tools python3-psycopg python3-redis ;;
    clients) echo perl python3-psycopg ;;
    docs) echo python3-minimal python3-psycopg ;;
    traceability) echo python3-minimal ;;
    style) echo shellcheck ;;
  esac
}

present() {
  case $1 in
    gcc | make | perl | shellcheck) command -v "$1" >/dev/null ;;
    libc6-dev) [ -e /usr/include/stdio.h ] ;;
    libhiredis-dev) [ -e /usr/include/hiredis/hiredis.h ] || [ -e /usr/local/include/hiredis/hiredis.h ] ;;
    redis-tools) command -v redis-cli >/dev/null && { command -v redis-server || command -v redis-check-rdb; } >/dev/null ;;
    postgresql-server-dev-*) [ -e "/usr/lib/postgresql/$PG_MAJOR/lib/pgxs/src/makefiles/pgxs.mk" ] && [ -e "/usr/include/postgresql/$PG_MAJOR/server/postgres.h" ] ;;
    postgresql-*-pgtap) [ -e "/usr/share/postgresql/$PG_MAJOR/extension/pgtap.control" ] ;;
    postgresql-*) [ -x "/usr/lib/postgresql/$PG_MAJOR/bin/postgres" ] && [ -x "/usr/lib/postgresql/$PG_MAJOR/bin/psql" ] ;;
    libtap-parser-sourcehandler-pgtap-perl) command -v pg_prove >/dev/null ;;
    pgbouncer) [ -x /usr/sbin/pgbouncer ] ;;
    libipc-run-perl) perl -MIPC::Run -e 1 2>/dev/null ;;
    python3-minimal) [ -x /usr/bin/python3 ] ;;
    python3-psycopg) /usr/bin/python3 -c 'import psycopg' 2>/dev/null ;;
    python3-redis) /usr/bin/python3 -c 'import redis' 2>/dev/null ;;
    *) die "no way is known to tell whether $1 is installed" ;;
  esac
}

# need_packages KIND...: sets PG_MAJOR, BINDIR and PG_CONFIG, and installs what is missing without asking.
need_packages() {
  local kind package missing=()
  PG_CHOSEN=${PG_CONFIG:-}
  if [ -n "$PG_CHOSEN" ]; then
    PG_CONFIG=$(command -v "$PG_CHOSEN") || die "PG_CONFIG=$PG_CHOSEN is no program"
    PG_MAJOR=$("$PG_CONFIG" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
  else
    PG_MAJOR=$(suite_version)
  fi
  for kind; do
    for package in $(packages_of "$kind"); do
      present "$package" || case " ${missing[*]-} " in *" $package "*) ;; *) missing+=("$package") ;; esac
    done
  done
  if [ ${#missing[@]} -gt 0 ]; then
    install_packages "${missing[@]}"
    for package in "${missing[@]}"; do
      present "$package" || die "$package was installed, but what it brings is not there"
    done
  fi
  [ -n "$PG_CHOSEN" ] || PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config
  [ -x "$PG_CONFIG" ] || PG_CONFIG=$(command -v pg_config) || die "pg_config of PostgreSQL $PG_MAJOR is missing"
  BINDIR=$("$PG_CONFIG" --bindir)
  PGXS_DIR=$("$PG_CONFIG" --pgxs)
  PGXS_DIR=${PGXS_DIR%/src/makefiles/pgxs.mk}
  export PG_CONFIG BINDIR PGXS_DIR
}

install_packages() {
  local root=() conf=/etc/postgresql-common/createcluster.d/zz-gen_durable.conf wrote='' status=0
  command -v apt-get >/dev/null || die "missing here, and there is no apt-get to bring it: $*"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing here: $* (install it as root: apt-get install $*)"
    root=(sudo)
    [ -t 0 ] || root=(sudo -n)
  fi
  say "installing $*"

  # The server's package makes a cluster on port 5432 unless told otherwise. Told so for this installation only: what
  # the machine does later is its owner's choice.
  if [[ " $* " == *" postgresql-$PG_MAJOR "* ]] &&
    ! grep -Eqs '^[[:space:]]*create_main_cluster[[:space:]]*=[[:space:]]*false' /etc/postgresql-common/createcluster.d/*.conf; then
    "${root[@]}" mkdir -p "${conf%/*}"
    echo 'create_main_cluster = false' | "${root[@]}" tee "$conf" >/dev/null
    wrote=1
  fi
  apt "${root[@]}" update || say "apt-get update failed; going on with the lists that are here"
  apt "${root[@]}" install -y --no-install-recommends "$@" || status=$?
  [ -z "$wrote" ] || "${root[@]}" rm -f "$conf"
  [ "$status" = 0 ] || die "apt-get could not install: $*"
}

# apt [sudo ...] VERB...: quiet while it goes well, and with the end of its words when it does not.
apt() {
  local log status=0
  log=$(mktemp)
  local before=()
  while [[ $1 == sudo || $1 == -n ]]; do before+=("$1"); shift; done
  "${before[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" \
    </dev/null >"$log" 2>&1 || { status=$?; tail -20 "$log" >&2; }
  rm -f "$log"
  return "$status"
}
