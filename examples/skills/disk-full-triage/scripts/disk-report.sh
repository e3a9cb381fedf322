#!/bin/sh
# Reports what fills the file system of a directory. Reads only.
set -u

usage() {
  cat <<'USAGE'
usage: disk-report.sh [-n COUNT] [DIRECTORY]

Reports block and inode use of the file system of DIRECTORY (default: the
current one), the largest directories and files under it, and files that were
deleted but are still open. It stays on one file system and changes nothing.

  -n COUNT    lines in each list (default 10)
  -h, --help  show this text

exit codes: 0 reported, 2 wrong call or unreadable directory
USAGE
}

fail() {
  printf 'disk-report.sh: %s\n' "$1" >&2
  exit 2
}

count=10
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    -n)
      [ $# -ge 2 ] || fail "-n needs a number"
      count=$2
      shift 2
      ;;
    --)
      shift
      break
      ;;
    -*) fail "unknown option $1; see --help" ;;
    *) break ;;
  esac
done
[ $# -le 1 ] || fail "one directory at a time; see --help"
case $count in
  '' | *[!0-9]* | 0*) fail "-n needs a number from 1, not '$count'" ;;
esac

directory=${1:-.}
[ -d "$directory" ] || fail "no such directory: $directory"
directory=$(CDPATH='' cd -- "$directory" && pwd -P) || fail "cannot enter: $directory"

errors=$(mktemp "${TMPDIR:-/tmp}/disk-report.XXXXXX") || fail "cannot write to ${TMPDIR:-/tmp}: set TMPDIR to a place with room"
trap 'rm -f "$errors"' EXIT
trap 'exit 130' INT TERM

# Turns "KiB<TAB>path" into a right-aligned size that people can read.
readable() {
  awk -F '\t' '{
    size = $1; unit = "KiB"
    if (size >= 1024) { size /= 1024; unit = "MiB" }
    if (size >= 1024) { size /= 1024; unit = "GiB" }
    path = $0; sub(/^[^\t]*\t/, "", path)
    printf "  %8.1f %s  %s\n", size, unit, path
  }'
}

printf '== file system of %s\n' "$directory"
df -Pk "$directory" 2>>"$errors" | awk 'NR == 2 { printf "  blocks: %s used, %.1f GiB of %.1f GiB, %.1f GiB free, mounted on %s\n", $5, $3/1048576, $2/1048576, $4/1048576, $6 }'
# df -i is not POSIX and its columns differ: find them by their headings.
df -i "$directory" 2>/dev/null | awk '
  NR == 1 { for (i = 1; i <= NF; i++) if ($i == "IUse%" || $i == "%iused") column = i }
  NR == 2 && column { printf "  inodes: %s used\n", $column; shown = 1 }
  END { if (!shown) print "  inodes: this df does not tell" }'

printf '\n== largest directories\n'
du -xk "$directory" 2>>"$errors" | sort -rn | head -n "$count" | readable

printf '\n== largest files\n'
find "$directory" -xdev -type f -size +2047 -exec du -k {} + 2>>"$errors" | sort -rn | head -n "$count" | readable
printf '  (files under 1 MiB are not listed)\n'

printf '\n== deleted, but still open\n'
if command -v lsof >/dev/null 2>&1; then
  # +L1 lists files without a name; -a with +f limits them to this file system where lsof can.
  held=$(lsof -nP -a +L1 -- "$(df -Pk "$directory" | awk 'NR == 2 { print $6 }')" 2>/dev/null | awk 'NR > 1 { printf "  %s (process %s): %s bytes\n", $1, $2, $7 }' | head -n "$count")
  printf '%s\n' "${held:-  none that this user can see}"
else
  printf '  lsof is not installed, so this is not known\n'
fi

if [ -s "$errors" ]; then
  printf '\n%s places could not be read; the sums leave them out.\n' "$(wc -l <"$errors" | tr -d ' ')"
fi
