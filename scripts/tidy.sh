#!/usr/bin/env bash
# Runs `go mod tidy` in every module. The modules require each other's coming release, which cannot be
# downloaded yet, and their go.mod files must be fit to publish, without a replace. So tidy works on a
# copy of go.mod and go.sum that has one, and the result is taken over without it.
#
# With --check nothing is written, and the exit code is 1 if anything would change.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

VERSION=v0.1.0 # of the modules that the others require
SIBLINGS=("" /pgstore)

check=0
case ${1-} in
"") ;;
--check) check=1 ;;
*) die "usage: scripts/tidy.sh [--check]" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tidy FOLDER leaves the tidy files in $work/go.mod and $work/go.sum.
tidy() {
	local sibling path mod=$work/go.mod
	rm -f "$work"/go.*
	cp "$1/go.mod" "$mod"
	[[ ! -e $1/go.sum ]] || cp "$1/go.sum" "$work/go.sum"
	for sibling in "${SIBLINGS[@]}"; do
		go mod edit -replace "$MODULE$sibling=$ROOT$sibling" "$mod"
	done
	(cd "$1" && GOWORK=off GOFLAGS='' go mod tidy -modfile="$mod") >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		die "go mod tidy failed in $1"
	}
	for sibling in "${SIBLINGS[@]}"; do
		path=$MODULE$sibling
		go mod edit -dropreplace "$path" "$mod"
		# A module that is imported for the first time gets a made-up version, since there is none to find.
		if grep -q "$path v0.0.0-00010101000000-000000000000" "$mod"; then
			go mod edit -require "$path@$VERSION" "$mod"
		fi
	done
	touch "$work/go.sum" # A module without dependencies has none.
}

# What the others require comes first, since its go.mod has a say in theirs.
ordered() {
	printf '.%s\n' "${SIBLINGS[@]}"
	modules | grep -vxF "$(printf '.%s\n' "${SIBLINGS[@]}")"
}

changed=0
for module in $(ordered); do
	tidy "$module"
	for file in go.mod go.sum; do
		new=$work/$file old=$module/$file
		if [[ ! -e $old && ! -s $new ]] || cmp -s "$old" "$new"; then
			continue
		fi
		changed=1
		if ((check)); then
			diff -u --label "$old" --label "$old, tidy" <(cat "$old" 2>/dev/null) "$new" || true
		else
			cp "$new" "$old"
			echo "changed $old"
		fi
	done
done
# A dependency may need a newer Go than before, and go.work must not name an older one than any module.
((check)) || go work use
if ((check && changed)); then
	die "not tidy: run make tidy"
fi
