#!/bin/sh
# Unit tests on each supported Python that this machine has, beside the one of .venv; each has a .venv-VERSION. Without
# arguments these are the tests of the parts that read the language most: functions, folders, hostile input, HTTP, SQLite.
# A version that is missing is named and fails nothing. A Python is that of the system (Debian's 3.11.2 matches texts and
# raises errors in other ways than later ones of 3.11), or is found on PATH, by uv, or among those of pyenv.
set -eu
[ $# -gt 0 ] || set -- tests/unit/executions tests/unit/folder tests/unit/trust tests/unit/model tests/unit/wire tests/unit/adapters

say() { printf '%s\n' "test: $*" >&2; }

find_python() {
  for candidate in "/usr/bin/python$1" "python$1" "$(uv python find --system "$1" 2>/dev/null)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1."*/bin/python; do
    if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
}

own=$(python -V)
wanted=$(cksum <requirements.lock)
for version in 3.11 3.12 3.13; do
  found=$(find_python "$version")
  if [ -z "$found" ]; then
    say "Python $version is not installed; the unit tests did not run on it"
    continue
  fi
  [ "$("$found" -V)" != "$own" ] || continue
  venv=.venv-$version
  if [ "$(cat "$venv/.installed" 2>/dev/null)" != "$wanted" ]; then
    say "making $venv with $found"
    uv venv --quiet --clear --python "$found" "$venv"
    uv pip sync --quiet --python "$venv/bin/python" --require-hashes requirements.lock
    uv pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
    printf '%s\n' "$wanted" >"$venv/.installed"
  fi
  say "the unit tests on Python $version"
  # Python 3.13 warns of connections that the end of a test leaves to the collector.
  "$venv/bin/python" -m pytest -W "ignore:unclosed database:ResourceWarning" -n 2 --dist worksteal --quiet "$@"
done
