# shellcheck shell=bash
# What the steps of the report do outside the database. Both workers use it; nothing here knows of SQL.

DOC=${DOC:-/usr/share/doc}
export LC_ALL=C # so that wc counts bytes, and sort sorts by them, everywhere alike

# do_step JOB: does the step of a job (a line of fields set apart by tabs: token, id, step, package, files) and prints the
# line to hand back. A step that fails is handed back as the step "fail" with the reason, and the engine tries it again.
do_step() {
  local job token id step package found
  IFS=$'\t' read -ra job <<<"$1"
  token=${job[0]} id=${job[1]} step=${job[2]} package=${job[3]}
  echo "$step $package" >&2

  case $step in
    list) found=$(documents "$DOC" -printf '%P\n' | cut -d/ -f1 | sort -u) ;;
    read) found=$(documents "$DOC/$package" -print) ;;
    measure) found=$(measure "${job[@]:4}" 2>&1) || step=fail ;;
    join | publish) found= ;;
    *) found="no such step: $step" step=fail ;;
  esac

  # One line a job: what was found on several lines is set apart by tabs.
  printf '%s\t%s\t%s\t%s' "$token" "$id" "$step" "$package"
  [ -z "$found" ] || printf '\t%s' "${found//$'\n'/$'\t'}"
  printf '\n'
}

# documents FOLDER ACTION...: the compressed changelogs and the copyright files of packages below a folder.
documents() {
  find "$1" -mindepth 1 -type f -path "$DOC/*/*" \( -name 'changelog*.gz' -o -name 'NEWS*.gz' -o -name copyright \) "${@:2}"
}

# measure FILE...: of each, unpacked, its bytes, lines and words; then the hash of the file as it is, and its path.
measure() {
  local file counts lines words bytes hashes
  hashes=$(sha256sum -- "$@") || return
  for file; do
    counts=$(gzip -cdf -- "$file" | wc -lwc) || return
    read -r lines words bytes <<<"$counts"
    printf '%s %s %s %s %s\n' "$bytes" "$lines" "$words" "${hashes%% *}" "$file"
    hashes=${hashes#*$'\n'}
  done
}
