# shellcheck shell=bash
# The style checks: small rules that a program can hold. Each prints what offends and one line "ok - rule".

# rule NAME: reads the offenders, a line each.
rule() {
  local offenders
  offenders=$(sed "31,\$d")
  if [ -z "$offenders" ]; then
    say "ok - $1"
    STYLE_PASSED=$((STYLE_PASSED + 1))
  else
    printf '%s\n' "$offenders" | sed 's/^/    /'
    say "not ok - $1"
    STYLE_FAILED=$((STYLE_FAILED + 1))
  fi
}

# Files that people wrote: what tests are expected to print may look as it likes.
written() {
  find . \( -name .git -o -name node_modules -o -name expected \) -prune -o -type f "$@" -print | sed 's|^\./||' | sort
}

search() { tr '\n' '\0' | xargs -0 -r grep -nIE "$1" /dev/null || true; }

unlisted() {
  local listed=" $1 " file
  while IFS= read -r file; do
    case $listed in *" $file "*) ;; *) say "$2/$file is in no list, so nothing runs it" ;; esac
  done
}

missing_from() {
  local name
  for name in $1; do [ -e "$2/$name$3" ] || say "$2/$name$3 does not exist"; done
}

kind_style() {
  local mark tests specs
  STYLE_PASSED=0
  STYLE_FAILED=0
  shopt -s lastpipe # so that rule, the last of each pipe, counts in this shell
  # Put together here, so that this file is none of its own findings.
  mark="TO""DO|FIX""ME|X""XX|HA""CK"

  written -path './src/*' -name '*.[ch]' ! -name compat.h | search 'PG_VERSION_NUM' | rule "only src/compat.h knows PostgreSQL's versions"
  written \( -name '*.[ch]' -o -name '*.sql' -o -name '*.sh' -o -name '*.p[lmy]' -o -name '*.spec' -o -name '*.md' -o -perm -u+x \) |
    tr '\n' '\0' | xargs -0 wc -l | awk '$1 > 900 && $2 != "total"' | rule "no file is longer than 900 lines"
  written | search "\\b($mark)\\b" | rule "no unfinished marks"
  written | search '^(<{7}|={7}|>{7})( |$)' | rule "no marks of a merge"
  written ! -name '*.md' | search '[[:blank:]]+$' | rule "no blanks at the end of a line"
  written \( -name '*.orig' -o -name '*.rej' -o -name '*~' -o -name '*.swp' -o -name 'core' -o -name 'core.[0-9]*' -o -name '*.bak' \) | rule "no leftover files"
  written -name '*.c' | while IFS= read -r file; do head -n 1 "$file" | grep -q '^/\*' || say "$file"; done | rule "every C file opens with what it is for"
  written -path './src/*' -name '*.[ch]' | search '^[^/*"]*[^a-z_](printf|fprintf|sprintf|gets)\(' | rule "no printing past the server's log in src"
  written \( -name '*.sh' -o -perm -u+x \) | while IFS= read -r file; do
    ! head -n 1 "$file" | grep -q 'bash$' || bash -n "$file" 2>&1
  done | rule "every shell file is read without an error"
  if command -v shellcheck >/dev/null; then
    { shell_files | tr '\n' '\0' | xargs -0 shellcheck -x -f gcc || true; } | rule "shellcheck finds nothing"
  fi

  if [ -d sql ]; then
    tests=$(make_variable REGRESS)
    { find sql -name '*.sql' -printf '%f\n' | sed 's/\.sql$//' | sort | unlisted "$tests" sql
      missing_from "$tests" sql .sql
      missing_from "$tests" expected .out; } | rule "every pg_regress test is listed and complete"
  fi
  if [ -d test/isolation/specs ]; then
    specs=$(make_variable ISOLATION)
    { find test/isolation/specs -name '*.spec' -printf '%f\n' | sed 's/\.spec$//' | sort | unlisted "$specs" test/isolation/specs
      missing_from "$specs" test/isolation/specs .spec
      missing_from "$specs" test/isolation/expected .out; } | rule "every isolation spec is listed and complete"
  fi
  tally style "$STYLE_PASSED" "$STYLE_FAILED"
}

# This project's own shell programs, by name or by their first line.
shell_files() {
  written \( -path './scripts/*' -o -path './examples/*' -o -path './.ci/*' \) | while IFS= read -r file; do
    case $file in
      *.sh) say "$file" ;;
      *.*) ;;
      *) ! head -n 1 "$file" | grep -qs '^#!.*sh$' || say "$file" ;;
    esac
  done
}
