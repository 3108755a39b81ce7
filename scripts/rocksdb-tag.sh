#!/usr/bin/env bash
# Prints the build tag with which this computer has to build: nothing where RocksDB fits, norocksdb (and the reason, on stderr) where
# it does not. The Makefile asks once and hands the answer to every go command.
#
# The Go binding follows RocksDB minor by minor, so the version is decided by what the binding was written against (docs/adr/0008).
set -euo pipefail

without() {
	echo "building without RocksDB (-tags norocksdb): $1" >&2
	echo norocksdb
	exit 0
}

[ "$(go env CGO_ENABLED)" = 1 ] || without "cgo is off or there is no C compiler"
read -r -a cc <<<"$(go env CC)"
command -v "${cc[0]}" >/dev/null 2>&1 || without "there is no C compiler (${cc[0]})"

# CGO_CFLAGS and CGO_LDFLAGS count here as they do in the build, so a RocksDB of one's own in another place is found.
read -r -a cflags <<<"$(go env CGO_CFLAGS)"
read -r -a ldflags <<<"$(go env CGO_LDFLAGS)"

# The compiler says where the header is. version.h beside it is C++, so it is read as text.
header=$("${cc[@]}" "${cflags[@]}" -M -x c - <<<'#include <rocksdb/c.h>' 2>/dev/null | grep -o '[^ ]*/rocksdb/c\.h' | head -n 1) ||
	without "no RocksDB headers here (librocksdb-dev, 7.8.x)"
version=$(awk '$2 == "ROCKSDB_MAJOR" {major = $3} $2 == "ROCKSDB_MINOR" {minor = $3} END {print major "." minor}' "${header%/c.h}/version.h")
[ "$version" = 7.8 ] || without "the RocksDB here is $version and 7.8 is needed"

# Linking, not only including, is what finds a library whose own needs are missing.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/probe.c" <<'C'
#include <rocksdb/c.h>
int main(void) { rocksdb_options_destroy(rocksdb_options_create()); return 0; }
C
if ! "${cc[@]}" "${cflags[@]}" -o "$work/probe" "$work/probe.c" "${ldflags[@]}" \
	-lrocksdb -pthread -lstdc++ -ldl -lm -lzstd -llz4 -lz -lsnappy >"$work/out" 2>&1; then
	without "a program with RocksDB does not link: $(grep -m 1 -E 'cannot find|undefined|error' "$work/out" || head -n 1 "$work/out")"
fi
