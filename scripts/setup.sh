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
have_node() { [[ -n ${ICHIDO_NODE:-} ]] || is_node20 node || is_node20 "$NODE"; }
is_node20() { "$1" -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; }
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
	command -v npm >/dev/null || echo nodejs npm
	have_chromium || echo chromium
}

# Debian 12 has Node 18. The package of npm's own registry is the program and nothing else.
install_node() {
	have_node && return
	local machine=x64
	[[ $(uname -m) != aarch64 ]] || machine=arm64
	echo "    installing Node 20 into .cache"
	npm install --prefix "$NODE_DIR" --ignore-scripts --no-audit --no-fund --loglevel=error "node-linux-$machine@20" >&2 &&
		ln -sf "node_modules/node-linux-$machine/bin/node" "$NODE" && is_node20 "$NODE" ||
		die "Node 20 or newer is missing: install it, or name it in ICHIDO_NODE"
}

packages=$(missing | xargs)
if [[ -z $packages ]]; then
	install_node
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
[[ -z $left ]] || die "still missing after installing $packages: $left"
install_node
