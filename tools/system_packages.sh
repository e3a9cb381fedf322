#!/bin/sh
# The programs outside PyPI that tests run beside: nginx, HAProxy, a proxy, PgBouncer, common archivers, npm for the peers
# in tests/interop, a browser for the page, shells for the completion, a reader of man pages, the sandbox; and for the
# local network what makes hosts on it, Avahi, and a reader of captures.
# As root on a Debian what is missing is installed. Elsewhere it is named with the fix; the tests that need
# it are then skipped with that reason, so a failure here stops nothing.
set -u

say() { printf '%s\n' "test: $*" >&2; }

missing=
wants() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
wants nginx nginx
wants haproxy haproxy
wants promtool prometheus
wants zip zip
wants unzip unzip
wants bsdtar libarchive-tools
wants node nodejs
wants npm npm
wants chromium chromium
wants zsh zsh
wants fish fish
wants mandoc mandoc
wants bwrap bubblewrap
wants ip iproute2
wants nft nftables
wants avahi-browse avahi-utils
wants avahi-daemon avahi-daemon
wants dbus-daemon dbus
wants tshark tshark
[ -d /usr/lib/postgresql ] || missing="$missing postgresql" # with TLS, and older than the wheel's
wants pgbouncer pgbouncer
wants tinyproxy tinyproxy
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  say "not installed:$missing. The tests that need them will be skipped."
  say "fix: as root: apt-get install --no-install-recommends$missing"
  exit 0
fi

# Debian starts a server when its package is installed; tests start their own, on a free port.
if [ ! -e /usr/sbin/policy-rc.d ]; then
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  trap 'exit 130' INT TERM
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
fi

say "installing$missing"
# shellcheck disable=SC2086 # several words are several packages
if ! output=$( (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing) 2>&1); then
  printf '%s\n' "$output" | tail -n 5 >&2
  say "could not install:$missing. The tests that need them will be skipped."
fi
