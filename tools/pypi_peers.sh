#!/bin/sh
# The peers from PyPI that do not fit beside our own dependencies, exactly as tests/interop/requirements.lock says.
# A failure stops nothing: the tests that need a peer are skipped with that reason.
set -u
cd "$(dirname "$0")/../tests/interop" || exit

wanted=$(cksum <requirements.lock)
[ "$(cat .peers/.installed 2>/dev/null)" != "$wanted" ] || exit 0

printf '%s\n' "test: installing the peers from PyPI" >&2
if uv venv --quiet --clear --python "$(command -v python)" .peers &&
  uv pip sync --quiet --python .peers/bin/python --require-hashes requirements.lock; then
  printf '%s\n' "$wanted" >.peers/.installed
else
  printf '%s\n' "test: uv failed; the lines above say why. The tests against these programs will be skipped." >&2
fi
