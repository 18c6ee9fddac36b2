# shellcheck shell=bash
# Other versions of PostgreSQL: a slim Debian of the suite that has the version, in a folder of its own.
#
# The folders are kept for the next time, below $GD_ROOTS. What runs in one gets its own processes and mounts, and writes
# to a layer in memory above the folder, so a run leaves the folder as it was and nothing behind.

ROOTS=${GD_ROOTS:-/var/cache/gen_durable}

# root_suite VERSION: only these versions are in a suite of Debian, beside the machine's own.
root_suite() {
  case $1 in
    15) echo bookworm ;;
    17) echo trixie ;;
    18) echo forky ;;
    *) die "no suite of Debian is known to have PostgreSQL $1" ;;
  esac
}

need_root() {
  [ "$(id -u)" = 0 ] || die "setting up another version's folder needs root"
  command -v mmdebstrap >/dev/null || apt update || say "apt-get update failed; going on with the lists that are here"
  command -v mmdebstrap >/dev/null || apt install -y --no-install-recommends mmdebstrap debian-archive-keyring
}

# root_make VERSION: sets ROOT, and makes it if it is not there. The headers come without their packages' dependencies,
# which are a compiler of half a gigabyte. It takes its name when it is complete, so one that was cut short is made anew.
root_make() {
  local version=$1 suite path options=(--mode=root --variant=apt)
  suite=$(root_suite "$version")
  ROOT=$ROOTS/pg$version
  if [ -x "$ROOT/usr/lib/postgresql/$version/bin/postgres" ]; then return; fi
  need_root
  say "setting up PostgreSQL $version of Debian's $suite in $ROOT"
  for path in man doc locale; do options+=("--dpkgopt=path-exclude=/usr/share/$path/*"); done
  # shellcheck disable=SC2016 # the inner shells' variables
  options+=(
    '--aptopt=Acquire::Check-Valid-Until "false"' '--aptopt=Apt::Install-Recommends "false"' '--aptopt=Acquire::Retries "3"'
    "--include=gcc,make,libc6-dev,postgresql-$version,postgresql-$version-pgtap,libtap-parser-sourcehandler-pgtap-perl,libipc-run-perl"
    --essential-hook='mkdir -p "$1/etc/postgresql-common/createcluster.d"'
    --essential-hook='echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.d/no-cluster.conf"'
    --customize-hook="chroot \"\$1\" sh -ec 'cd /tmp; apt-get download -q postgresql-server-dev-$version libpq-dev; for d in *.deb; do dpkg -x \$d /; done; rm *.deb'"
  )
  mkdir -p "$ROOTS"
  rm -rf "$ROOT.new"
  mmdebstrap "${options[@]}" "$suite" "$ROOT.new" >"$ROOT.log" 2>&1 || {
    tail -20 "$ROOT.log" >&2
    die "PostgreSQL $version could not be set up"
  }
  mv "$ROOT.new" "$ROOT"
}

# root_run ROOT SOURCE MORE COMMAND...: runs the command in a layer above ROOT, with SOURCE, read only, as /src. MORE is a
# folder whose content lies over ROOT's, or empty.
root_run() {
  local root=$1 source=$2 more=$3
  shift 3
  # shellcheck disable=SC2016 # the inner shell's variables
  unshare --mount --pid --ipc --fork --kill-child --propagation private bash -euc '
    root=$1 source=$2 more=$3; shift 3
    layers=${more:+$more:}$root
    mount -t tmpfs -o mode=0755 tmpfs /mnt
    mkdir /mnt/upper /mnt/work /mnt/root
    mount -t overlay overlay -o "lowerdir=$layers,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
    cd /mnt/root
    mkdir -p src
    mount -t proc proc proc
    mount --rbind /dev dev
    mount -t tmpfs tmpfs dev/shm
    mount -t tmpfs -o mode=1777 tmpfs tmp
    mount --bind "$source" src
    mount -o remount,bind,ro src
    exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/tmp "$@"
  ' bash "$root" "$source" "$more" "$@" </dev/null
}
