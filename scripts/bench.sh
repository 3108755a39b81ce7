#!/usr/bin/env bash
# Runs the Go benchmarks that match $BENCH (all by default), one package at a time so that they do not measure each other. The output
# is what benchstat reads.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t packages < <(grep -rlE '^func Benchmark[A-Z]' --include='*_test.go' . | xargs -r -n 1 dirname | sort -u)
if [ "${#packages[@]}" -eq 0 ]; then
	echo "bench: no package has a benchmark" >&2
	exit 0
fi
go test -p 1 -run '^$' -bench "${BENCH:-.}" -benchmem "${packages[@]}"
