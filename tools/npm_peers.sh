#!/bin/sh
# The peers from npm, exactly as tests/interop/package-lock.json says; no package's own script is run.
# A failure stops nothing: the tests that need a peer are skipped with that reason.
set -u
cd "$(dirname "$0")/../tests/interop" || exit

say() { printf '%s\n' "test: $*" >&2; }

wanted=$(cksum <package-lock.json)
[ "$(cat node_modules/.installed 2>/dev/null)" != "$wanted" ] || exit 0

if ! command -v npm >/dev/null 2>&1; then
  say "npm is not installed. The tests against programs from npm will be skipped."
  exit 0
fi

say "installing the peers from npm"
if npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null; then
  # Debian's npm 9 does not link this program; newer ones do.
  for node in node_modules/node-linux-*/bin/node; do
    ln -sf "../${node#node_modules/}" node_modules/.bin/node
  done
  printf '%s\n' "$wanted" >node_modules/.installed
else
  say "npm ci failed; the lines above say why. The tests against programs from npm will be skipped."
fi
