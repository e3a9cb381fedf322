#!/bin/sh
# ./dev test: install what the tests need, then run them all; the closing line counts them.
# With arguments: only pytest, with these, and nothing is installed.
set -eu
PATH="$PATH:/usr/sbin:/sbin" # where Debian keeps servers, also for a user who is not root
export PATH

if [ $# -gt 0 ]; then
  exec pytest "$@"
fi
sh tools/system_packages.sh
sh tools/npm_peers.sh
exec pytest -n 2 --dist loadfile --durations 10 --durations-min 0.1 --quiet
