# shellcheck shell=bash
# What the demo's report says, and whether it is true. What is seen comes from zcat, wc and sha256sum alone and shares
# nothing with the workers' steps, so a fault in those shows.

# report_rows PARENT SQL: rows of a query in which r is the report.
report_rows() {
  query "WITH report AS (SELECT result AS r FROM gen_durable.instances WHERE id = :parent) $2" -v parent="$1"
}

# report_said PARENT: the report's figures as lines of text that can be compared.
report_said() {
  report_rows "$1" "SELECT 'packages ' || (r ->> 'packages') FROM report"
  report_rows "$1" "SELECT key || ' ' || (r ->> key) FROM report, unnest(ARRAY['files', 'bytes', 'lines', 'words']) AS key"
  report_rows "$1" "SELECT concat_ws(' ', 'largest', f ->> 'bytes', f ->> 'path')
                      FROM report, jsonb_array_elements(r -> 'largest') WITH ORDINALITY AS l(f, n) ORDER BY n"
  report_rows "$1" "SELECT concat_ws(' ', 'duplicate', d ->> 'sha256', path)
                      FROM report, jsonb_array_elements(r -> 'duplicates') WITH ORDINALITY AS l(d, n),
                           jsonb_array_elements_text(d -> 'paths') WITH ORDINALITY AS p(path, m) ORDER BY n, m"
}

# files_said: what the children measured: bytes, lines, words, hash, path.
files_said() {
  query "SELECT f ->> 'bytes', f ->> 'lines', f ->> 'words', f ->> 'sha256', f ->> 'path'
           FROM gen_durable.instances, jsonb_array_elements(result -> 'files') AS f WHERE fsm = 'package'" | LC_ALL=C sort
}

# files_seen: the same, seen directly. Several shells at once, each with its own output: two lines a file from the first
# loop, its path and what wc says, and then the hashes.
files_seen() {
  # shellcheck disable=SC2016
  documents -print0 | as_server xargs -0 -r -n 50 -P "$(nproc)" env LC_ALL=C sh -c '
    { for file; do echo "$file"; zcat -f -- "$file" | wc -lwc; done; sha256sum -- "$@"; } >"$TMPDIR/seen.$$"' measure
  awk '/^\// { path = $0; next }
       /^ *[0-9]+ +[0-9]+ +[0-9]+$/ { counts[path] = $3 "\t" $1 "\t" $2; next }
       { path = substr($0, 67); print counts[path] "\t" $1 "\t" path }' "$WORK"/tmp/seen.* | LC_ALL=C sort
}

# report_seen FILE: the report's figures from such a table.
report_seen() {
  cut -f5 "$1" | cut -d/ -f5 | sort -u | awk 'END { print "packages " NR }'
  awk -F'\t' '{ b += $1; l += $2; w += $3 } END { printf "files %d\nbytes %.0f\nlines %.0f\nwords %.0f\n", NR, b, l, w }' "$1"
  LC_ALL=C sort -t $'\t' -k1,1nr -k5,5 "$1" | awk -F'\t' 'NR <= 10 { print "largest", $1, $5 }'
  LC_ALL=C sort -t $'\t' -k4,4 -k5,5 "$1" |
    awk -F'\t' '{ hash[NR] = $4; path[NR] = $5; n[$4]++ } END { for (i = 1; i <= NR; i++) if (n[hash[i]] > 1) print "duplicate", hash[i], path[i] }'
}

report_print() {
  local said=$WORK/report.said
  report_said "$1" >"$said"
  say
  sed -n 's/^\(packages\|files\|bytes\|lines\|words\) \(.*\)/\2 \1/p' "$said" | awk '{ printf "%15s %s\n", $1, $2 }'
  say "    the ten largest, unpacked:"
  awk '$1 == "largest" { printf "%15d  %s\n", $2, $3 }' "$said"
  awk '$1 == "duplicate" { files++; if (!n[$2]++) hashes++ } END { printf "    duplicates: %d files share %d hashes\n", files, hashes }' "$said"
  say
}

# report_compare PARENT: 0 where the report says what is there.
report_compare() {
  local differs=0
  documents -printf '%p %s %T@\n' | sort >"$WORK/after"
  cmp -s "$WORK/before" "$WORK/after" || die "files under $DOC changed while the report was made; run it again"
  files_said >"$WORK/files.said"
  files_seen >"$WORK/files.seen"
  report_seen "$WORK/files.seen" >"$WORK/report.seen"
  compare files "each file's bytes, lines, words and hash" || differs=1
  compare report 'the totals, the ten largest, the duplicates' || differs=1
  return "$differs"
}

# compare WHAT WORDS
compare() {
  if diff "$WORK/$1.said" "$WORK/$1.seen" >"$WORK/$1.diff"; then
    tell "equal: $2 ($(wc -l <"$WORK/$1.said") lines)"
  else
    tell "DIFFERENT: $2 (< the report says, > is there)"
    head -n 20 "$WORK/$1.diff"
    return 1
  fi
}
