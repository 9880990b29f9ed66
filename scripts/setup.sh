#!/usr/bin/env bash
# Installs what the tests need and the machine lacks: a C compiler (for the race detector and the model),
# PostgreSQL, PgBouncer, Spin, Node, Chromium. On Debian and Ubuntu it does so by itself where it may; elsewhere it says what is
# missing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v go >/dev/null || die "Go is missing: install the version that go.work names, or a newer one"

have_postgres() {
	[[ -n ${ICHIDO_PG_BIN:-} ]] && return
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null
}
have_pgbouncer() { [[ -x /usr/sbin/pgbouncer ]] || command -v pgbouncer >/dev/null; }
have_node() { node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null || [[ -n ${ICHIDO_NODE:-} ]]; }
have_chromium() {
	[[ -n ${ICHIDO_CHROMIUM:-} ]] && return
	local name
	for name in chromium chromium-browser google-chrome google-chrome-stable; do
		command -v "$name" >/dev/null && return
	done
	return 1
}
# A compiler without the C library's headers is as good as none.
# shellcheck disable=SC2046 # CC may hold flags.
have_cc() { echo '#include <stdlib.h>' | $(go env CC) -E - >/dev/null 2>&1; }

missing() {
	have_cc && command -v gcc >/dev/null || echo gcc libc6-dev
	have_postgres || echo postgresql
	command -v psql >/dev/null || echo postgresql-client
	have_pgbouncer || echo pgbouncer
	command -v spin >/dev/null || echo spin
	have_node || echo nodejs
	have_chromium || echo chromium
}

packages=$(missing | xargs)
if [[ -z $packages ]]; then
	exit 0
fi

as_root=()
if ((EUID != 0)); then
	as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
	die "missing: $packages (the names are Debian's). Install them and run this again."
fi
echo "    installing $packages"
as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # A list of names.
if ! { "${as_root[@]}" update && "${as_root[@]}" install -y --no-install-recommends $packages; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	die "installing $packages failed"
fi
left=$(missing | xargs)
[[ $left != *nodejs* ]] || die "the package nodejs is older than 20, or has no node: install Node 20 or newer, or name it in ICHIDO_NODE"
[[ -z $left ]] || die "still missing after installing $packages: $left"
