#!/bin/sh
# ./dev lock: resolve the dependencies anew, and the peers from npm; locks hold hashes and name no registry.
# A locked version stays while it fits; delete its lock file first to take the newest of everything.
set -eu
uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
  --extra server --group dev pyproject.toml -o requirements.lock
awk '/^uv==/ {inside = 1; print; next} inside && /^    --hash/ {print; next} {inside = 0}' requirements.lock |
  sed '$s/ \\$//' >requirements-uv.lock
uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
  tests/interop/requirements.in -o tests/interop/requirements.lock
if command -v npm >/dev/null 2>&1; then
  cd tests/interop
  npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --loglevel=error
else
  echo "lock: npm is not installed; tests/interop/package-lock.json stays as it is" >&2
fi
