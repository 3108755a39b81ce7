#!/usr/bin/env bash
# The regression suite of controllers: small simulations of profiles/regress, held against the results that are kept of them in
# profiles/regress/baseline.
#
#   scripts/regress.sh [check] [NAME…] [-- FLAGS of loadgen run…]   fails when a controller became worse, or cannot be compared
#   REASON="…" scripts/regress.sh accept [NAME…]                    makes the results as they are now the baseline, and notes why
#
# The results do not depend on the computer: the same code gives the same bytes, whatever its cores and --jobs. BASELINE names another folder than
# the kept one, CHANGES another list of reasons, LOADGEN another loadgen than that of this tree.
set -euo pipefail
cd "$(dirname "$0")/.."

profiles=profiles/regress
baseline=${BASELINE:-$profiles/baseline}
changes=${CHANGES:-$profiles/CHANGES.md}

mode=check
case "${1:-}" in check | accept)
	mode=$1
	shift
	;;
esac
names=()
while [ "$#" -gt 0 ] && [ "$1" != -- ]; do
	names+=("$1")
	shift
done
[ "${1:-}" != -- ] || shift
flags=("$@")

fail() {
	echo "regress: $*" >&2
	exit 1
}

if [ "$mode" = accept ]; then
	if ! grep -q '[^[:space:]]' <<<"${REASON:-}"; then
		fail 'accepting a change needs a reason: make regress-accept REASON="what changed, and why that is right"'
	fi
	[ "${#flags[@]}" -eq 0 ] || fail "a baseline is of the profiles as they are, without flags"
fi
if [ "${#names[@]}" -eq 0 ]; then
	for file in "$profiles"/*.yaml; do names+=("$(basename "$file" .yaml)"); done
	# What no profile makes any more would otherwise be kept for ever.
	if [ "$mode" = accept ]; then whole=yes; fi
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
loadgen=${LOADGEN:-$work/loadgen}
[ -n "${LOADGEN:-}" ] || go build -o "$loadgen" ./cmd/loadgen

# measure runs a profile. Points that are not valid say nothing, which is a failure here.
measure() {
	[ -f "$profiles/$1.yaml" ] || fail "there is no $profiles/$1.yaml"
	"$loadgen" run "$profiles/$1.yaml" --out "$work/$1" --quiet "${flags[@]}" >"$work/table" 2>"$work/errors" || {
		cat "$work/table" "$work/errors" >&2
		fail "$1 could not be measured"
	}
}

# compare holds a profile against its baseline; the last two lines of the report are a summary and the verdict.
compare() { "$loadgen" compare "$baseline/$1" "$work/$1" >"$work/report" 2>&1; }
summary() { echo "$1: $(tail -n 1 "$work/report") ($(tail -n 2 "$work/report" | head -n 1))"; }

check() {
	local name code worse=() unlike=()
	for name in "${names[@]}"; do
		measure "$name"
		if [ ! -d "$baseline/$name" ]; then
			echo "$name: no baseline"
			unlike+=("$name")
			continue
		fi
		code=0
		compare "$name" || code=$?
		case $code in
		0)
			summary "$name"
			# Nobody is asked to accept what may be chance, but everybody is to see it.
			if grep -q ' undecided' "$work/report"; then cat "$work/report"; fi
			;;
		3) unlike+=("$name") ;;&
		4) worse+=("$name") ;;&
		3 | 4)
			echo "== $name"
			cat "$work/report"
			echo
			;;
		*)
			cat "$work/report" >&2
			fail "$name could not be compared"
			;;
		esac
	done
	if [ "${#worse[@]}" -gt 0 ]; then echo "regress: worse than before: ${worse[*]}" >&2; fi
	if [ "${#unlike[@]}" -gt 0 ]; then echo "regress: not comparable with what is kept: ${unlike[*]}" >&2; fi
	if [ "${#worse[@]}" -gt 0 ] || [ "${#unlike[@]}" -gt 0 ]; then
		echo 'regress: look at what moved and why; where it is as it should be, make regress-accept REASON="…" keeps it' >&2
		return 1
	fi
}

accept() {
	local name old moved=()
	go build -o "$work/keep" ./internal/regress
	for name in "${names[@]}"; do
		measure "$name"
		"$work/keep" "$work/$name" "$work/kept/$name"
		if diff -rq "$work/kept/$name" "$baseline/$name" >/dev/null 2>&1; then continue; fi
		if [ ! -d "$baseline/$name" ]; then
			moved+=("- $name: new")
		elif compare "$name" || [ $? -eq 4 ]; then
			moved+=("- $(summary "$name")")
		else
			moved+=("- $name: another experiment than before")
		fi
		mkdir -p "$baseline"
		rm -rf "${baseline:?}/$name"
		mv "$work/kept/$name" "$baseline/$name"
	done
	if [ -n "${whole:-}" ]; then
		for old in "$baseline"/*/; do
			name=$(basename "$old")
			[ -f "$profiles/$name.yaml" ] || { [ -d "$old" ] && rm -rf "$old" && moved+=("- $name: gone"); }
		done
	fi
	if [ "${#moved[@]}" -eq 0 ]; then
		echo "regress: nothing has moved, so there is nothing to accept"
		return
	fi
	note "${moved[@]}"
	printf '%s\n' "${moved[@]}"
	echo "regress: kept in $baseline; the reason is in $changes"
}

# note writes the reason above those of before.
note() {
	local commit head=("# What moved the baseline" "" "Newest first; written by \`make regress-accept\`. The commit is the one that the change was made on.")
	commit=$(git rev-parse --short HEAD 2>/dev/null || echo "no commit")
	{
		printf '%s\n' "${head[@]}"
		printf '\n## %s, on %s\n\n' "$(date -u +%Y-%m-%d)" "$commit"
		printf '%s\n\n' "$REASON"
		printf '%s\n' "$@"
		if [ -f "$changes" ]; then tail -n "+$((${#head[@]} + 1))" "$changes"; fi
	} >"$work/changes"
	mv "$work/changes" "$changes"
}

"$mode"
