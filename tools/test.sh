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
pytest ${CI:+-p randomly --randomly-seed=1} -n 2 --dist loadfile --durations 10 --durations-min 0.1 --quiet && exit
result=$?
[ "$result" = 1 ] || exit "$result" # anything but a test that failed: interrupted, nothing found, a broken fixture file

# Hundreds of tests start servers and browsers on two cores that other work shares. What failed has one more try, alone;
# a test that passes only then is named here, since it is to be mended.
printf '%s\n' "test: the failures above are tried once more, alone"
pytest --last-failed --last-failed-no-failures none -p no:randomly --quiet || exit
printf '%s\n' "test: passed only alone, see the failures above"
