#!/usr/bin/env bash
# Draws the picture in README.md: runs docs/overload.yaml in virtual time and puts one of its figures at docs/overload.svg. The same profile gives
# the same picture; TestReadmePicture holds it against this one.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

code=0
bin/loadgen run docs/overload.yaml --on sim --out "$dir/run" || code=$?
# 3: some point is not valid; the picture says so of each.
if [ "$code" -ne 0 ] && [ "$code" -ne 3 ]; then exit "$code"; fi
cp "$dir/run/plots/goodput-all.svg" docs/overload.svg
echo "readme: docs/overload.svg"
