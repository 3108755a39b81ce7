#!/usr/bin/env bash
# Everything that must hold before a change lands, cheapest first, with the time that each step took. It stops at the first failure.
# Run it as `make test`, which sees to libraries and build tags; `test.sh lint` stops after the static checks.
set -euo pipefail
cd "$(dirname "$0")/.."

# Property tests draw their cases from this seed, so that a change is judged by the same cases as the one before it. `go test` by hand draws
# new ones each time and names the seed of those that fail; RAPID_SEED=0 does so here.
export RAPID_SEED=${RAPID_SEED:-20260801}
echo "== property tests: RAPID_SEED=$RAPID_SEED"

# step runs one step. bash ignores `set -e` inside the functions that it calls, so each of them returns its own failure.
step() {
	local name=$1 began=$SECONDS
	shift
	echo "== $name"
	if ! "$@"; then
		echo "FAILED: $name, after $((SECONDS - began)) s" >&2
		exit 1
	fi
	echo "== $name: passed in $((SECONDS - began)) s"
}

check_gofmt() {
	local unformatted
	unformatted=$(find . -name '*.go' -not -path './.*' -not -path '*/node_modules/*' -print0 | xargs -0 gofmt -l)
	if [ -n "$unformatted" ]; then
		echo "not formatted (make fmt):" >&2
		echo "$unformatted" >&2
		return 1
	fi
}

staticcheck() { go tool -modfile=tools/go.mod staticcheck ./...; }

# Without cgo there is no RocksDB; what takes its place must build too, whatever this computer has.
build_without_cgo() { CGO_ENABLED=0 go build ./...; }

# The packages whose tests start servers, open sockets or pace a load run one at a time: side by side on two cores they would measure
# each other. The tests of the commands measure real servers, so even they run one after the other.
measuring='^spillway/(counters|examples|guard|servers|internal/(calibrate|drive|harness|httptarget|poll|target))(/|$)'
commands='^spillway/cmd/'

run_tests() {
	local all quiet loud alone code=0
	all=$(go list ./...) || return 1
	quiet=$(grep -Ev "$measuring|$commands" <<<"$all" || true)
	loud=$(grep -E "$measuring" <<<"$all" || true)
	alone=$(grep -E "$commands" <<<"$all" || true)
	# All are run even when some fail: one look at the output should show everything that is wrong.
	# shellcheck disable=SC2086 # they are lists of packages
	{
		if [ -n "$quiet" ]; then go test "$@" $quiet || code=1; fi
		if [ -n "$loud" ]; then go test -p 1 "$@" $loud || code=1; fi
		if [ -n "$alone" ]; then go test -p 1 -parallel 1 "$@" $alone || code=1; fi
	}
	return "$code"
}

# fuzz_smoke gives every fuzz function a few seconds. The go command sometimes reports the end of the time as a failure of the function
# (golang/go issue 48591); a real one always names the input that it wrote.
fuzz_smoke() {
	local dir name out
	while read -r dir; do
		for name in $(go test -list '^Fuzz' "$dir" | grep '^Fuzz' || true); do
			echo "-- $dir $name"
			if out=$(go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-5s}" "$dir" 2>&1); then
				tail -n 1 <<<"$out"
			elif grep -q 'context deadline exceeded' <<<"$out" && ! grep -q 'Failing input written' <<<"$out"; then
				echo "the time was up in the middle of an input; nothing was found"
			else
				echo "$out" >&2
				return 1
			fi
		done
	done < <(grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | xargs -r -n 1 dirname | sort -u)
}

step "gofmt" check_gofmt
step "go vet" go vet ./...
step "staticcheck" staticcheck
step "architecture" go test -count=1 ./internal/archtest
if [ "${1:-}" = lint ]; then exit 0; fi
step "build without cgo" build_without_cgo
step "regression suite of controllers" scripts/regress.sh check
step "tests" run_tests
# What Go hands to C must hold no pointer that the collector does not see. The checks are on unless somebody's GODEBUG has turned them off.
step "calls of C, with their checks" env GODEBUG=cgocheck=1 go test -count=1 -short ./servers/rocksdb
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null 2>&1; then
	step "tests under the race detector" run_tests -race -short
else
	echo "== the race detector needs a C compiler and there is none: NOT RUN" >&2
fi
step "fuzzing, a few seconds each" fuzz_smoke
echo "== all passed in $SECONDS s"
