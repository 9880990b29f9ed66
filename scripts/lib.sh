# Shared by the scripts beside it; source it. It goes to the root of the checkout.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
MODULE=github.com/ichido-dev/ichido
BIN=$ROOT/.cache/bin
NODE_DIR=$ROOT/.cache/node # where setup.sh puts Node if the machine's is too old
NODE=$NODE_DIR/node

# Nothing here may wait for somebody to type.
exec </dev/null

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# phase NAME COMMAND... runs the command, says how long it took, and counts it in $failures if it failed.
# It never fails itself, and must not be called in a condition: there bash ignores -e in all that it calls.
failures=0
phase() {
	local name=$1 start=$SECONDS status
	shift
	printf '==> %s\n' "$name"
	set +e
	(
		set -e
		"$@"
	)
	status=$?
	set -e
	if ((status == 0)); then
		printf '    ok in %ds\n' $((SECONDS - start))
	else
		printf '    FAILED in %ds\n' $((SECONDS - start))
		failures=$((failures + 1))
	fi
}

# modules prints the folders of the workspace's modules, relative to the root: ".", "./pgstore", ...
modules() {
	go list -m -f '{{.Dir}}' | while read -r dir; do
		dir=${dir#"$ROOT"}
		printf '.%s\n' "$dir"
	done
}

# patterns prints what go commands at the root take to mean "every package of every module".
patterns() {
	modules | sed 's|$|/...|'
}

# tool PATH VERSION builds a Go program into $BIN once per version of it and of Go. An analyser that was
# built with an older Go cannot read newer code.
tool() {
	local path=$1 version=$2 name=${1##*/} stamp
	stamp=$BIN/.$name-$version-$(go env GOVERSION)
	if [[ -x $BIN/$name && -e $stamp ]]; then
		return
	fi
	mkdir -p "$BIN"
	rm -f "$BIN/.$name-"*
	printf '    building %s %s\n' "$name" "$version"
	# Other settings of the caller (GOFLAGS=-mod=vendor, GOOS of another system) are not meant for it.
	env -u GOFLAGS -u GOOS -u GOARCH GOWORK=off CGO_ENABLED=0 GOBIN="$BIN" go install "$path@$version"
	touch "$stamp"
}
