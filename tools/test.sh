#!/bin/sh
# ./dev test: install what the tests need, then run all but the long forms; the closing line counts them.
# With arguments: only pytest, with these, and nothing is installed.
set -eu
PATH="$PATH:/usr/sbin:/sbin" # where Debian keeps servers, also for a user who is not root
export PATH

if [ $# -gt 0 ]; then
  exec pytest "$@"
fi
sh tools/system_packages.sh
exec pytest ${CI:+-p randomly --randomly-seed=1} -n 3 --dist worksteal --durations 10 --durations-min 0.1 --quiet
