#!/usr/bin/env bash
# Says whether the Go in PATH can build this module, and what to do when it cannot.
set -euo pipefail
cd "$(dirname "$0")/.."

need=$(awk '$1 == "go" {print $2; exit}' go.mod)

die() {
	echo "deps: $1" >&2
	echo "deps: Spillway needs Go $need or newer: get it from https://go.dev/dl/, unpack it, and put its bin folder first in PATH" >&2
	exit 1
}

if ! command -v go >/dev/null 2>&1; then
	if [ -x /usr/local/go/bin/go ]; then die "Go is installed but not in PATH; try: export PATH=/usr/local/go/bin:\$PATH"; fi
	die "there is no Go in PATH"
fi

# From 1.21 on, Go fetches the toolchain that go.mod asks for unless GOTOOLCHAIN forbids it; asking for its version inside the module
# is what makes it do so.
if ! have=$(go env GOVERSION 2>&1); then die "$(command -v go): $have"; fi
have=${have#go}
have=${have%% *}
if [ "$(printf '%s\n%s\n' "$need" "${have%%-*}" | sort -V | head -n 1)" != "$need" ]; then
	die "$(command -v go) is Go $have, which is too old"
fi
