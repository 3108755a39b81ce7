#!/usr/bin/env bash
# Sees to it that this computer has what Spillway is built and tested with. Where all is present it does nothing and is quick;
# otherwise it installs Debian or Ubuntu packages if it may (as root, or with a sudo that asks for no password), and if it may not
# it says what to install. Only a missing or too old Go ends it with an error: everything else has a fallback, and the build goes on.
#
# SPILLWAY_NO_INSTALL=1 makes it look and tell, and install nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "deps: $*" >&2; }

scripts/check-go.sh

# librocksdb-dev is only worth installing in the one version that the Go binding fits (docs/adr/0008).
readonly rocksdb_want='7.8.'

# A package that is installed and still does not serve (another cgo setting, say) would not serve after a second installation.
installed() { dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^ii'; }

have_compiler() { command -v "$(go env CC)" >/dev/null 2>&1; }
have_rocksdb() { [ "$(scripts/rocksdb-tag.sh 2>/dev/null)" = "" ]; }
have_memcached() { PATH="$PATH:/usr/bin:/usr/sbin" command -v memcached >/dev/null 2>&1; }
have_memccapable() { command -v memccapable >/dev/null 2>&1; }
have_wrk() { command -v wrk >/dev/null 2>&1; }
have_chromium() { local c; for c in chromium chromium-browser google-chrome google-chrome-stable; do command -v "$c" >/dev/null 2>&1 && return 0; done; return 1; }
have_certificates() { [ -e /etc/ssl/certs/ca-certificates.crt ] || [ ! -e /etc/debian_version ]; }

# offered prints the version of package $1 that apt would install, or nothing.
offered() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" {print $2; exit}'; }

missing() {
	local list=()
	have_certificates || installed ca-certificates || list+=(ca-certificates)
	have_compiler || installed build-essential || list+=(build-essential)
	have_memcached || installed memcached || list+=(memcached)
	have_memccapable || installed libmemcached-tools || list+=(libmemcached-tools)
	have_wrk || installed wrk || list+=(wrk)
	have_chromium || installed chromium || list+=(chromium)
	have_rocksdb || installed librocksdb-dev || list+=(librocksdb-dev)
	echo "${list[*]-}"
}

wanted=$(missing)
[ -n "$wanted" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	say "missing: $wanted (Debian's names). This is neither Debian nor Ubuntu, so please install them yourself:"
	say "a C compiler, memcached, memccapable, wrk and Chromium for the tests, and RocksDB ${rocksdb_want}x with its headers for the RocksDB server."
	exit 0
fi

become=()
if [ "$(id -u)" -ne 0 ]; then
	if sudo -n true >/dev/null 2>&1; then become=(sudo -n); else become=(false); fi
fi

# apt runs apt-get without a question, waits a bounded time for another apt to finish, and never hangs on a network that is not there.
apt() {
	"${become[@]}" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a timeout 900 \
		apt-get -q -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "$@" \
		</dev/null >"$log" 2>&1
}

# drop removes package $1 from the list of what is wanted.
drop() { wanted=$(tr ' ' '\n' <<<"$wanted" | grep -vx -- "$1" | paste -sd' ' || true); }

# drop_unfit_rocksdb gives up on librocksdb-dev when apt offers it in a version that does not fit. With no list of packages yet it
# decides nothing: the list comes with the first update.
drop_unfit_rocksdb() {
	case " $wanted " in *" librocksdb-dev "*) ;; *) return 0 ;; esac
	local version
	version=$(offered librocksdb-dev)
	if [ -n "$version" ] && [ "${version#"$rocksdb_want"}" = "$version" ]; then
		say "RocksDB ${rocksdb_want}x is needed and this system offers $version: going on without the RocksDB server (-tags norocksdb)"
		drop librocksdb-dev
	fi
}

drop_unfit_rocksdb
[ -n "$wanted" ] || exit 0

if [ "${SPILLWAY_NO_INSTALL:-}" = 1 ] || [ "${become[0]-}" = false ]; then
	say "missing: $wanted"
	say "to install: sudo apt-get update && sudo apt-get install -y $wanted"
	say "going on without"
	exit 0
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

say "installing $wanted (apt-get; this happens once)"
apt update || say "apt-get update did not succeed; trying with the package lists that are here"
drop_unfit_rocksdb

# One package at a time: one that cannot be had must not keep the others away.
for package in $wanted; do
	if ! apt install --no-install-recommends "$package"; then
		say "could not install $package; the end of what apt-get said:"
		tail -n 5 "$log" | sed 's/^/deps:   /' >&2
		say "to install it later: sudo apt-get update && sudo apt-get install -y $package"
	elif [ "$package" = memcached ] && [ -d /run/systemd/system ]; then
		say "note: Debian starts memcached as a service when it is installed; the tests start their own. To stop it: sudo systemctl disable --now memcached"
	fi
done

left=$(missing)
if [ -n "$left" ]; then say "still missing: $left; going on without (SPILLWAY_NO_INSTALL=1 keeps the next build from trying again)"; fi
