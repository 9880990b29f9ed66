#!/usr/bin/env bash
# Explores the model of lease mode under the macros that are given, and shows step by step how it comes to what
# it finds, as in
#
#   scripts/model.sh                   (Hold)
#   scripts/model.sh RERUN NO_FENCING
#
# docs/design/007-lease-model.md says what there is. The test of package model runs what has to hold.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v spin >/dev/null || die "Spin is missing (Debian's package: spin); scripts/setup.sh installs it"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
macros=("${@/#/-D}")
# Small steps (-o3), and the shortest way (-i) to what is found.
spin "${macros[@]}" -o3 -a "$ROOT/model/lease.pml"
gcc -O2 -DSAFETY -DREACH -o pan pan.c
./pan -m100000 -i >report
if [[ ! -e lease.pml.trail ]]; then
	cat report
	exit 0
fi
# Steps that change nothing, such as those that test a condition, are left out.
spin "${macros[@]}" -o3 -t -p -k lease.pml.trail "$ROOT/model/lease.pml" |
	sed -n 's/^ *[0-9]*:\tproc *\([0-9]*\) (\([A-Z][a-z]*\):1) .*lease.pml:\([0-9]*\) (state [0-9]*)\t\[\(.*\)\]$/\2 \1 \3 \4/p' |
	awk '$5 == "=" { printf "%-8s %d  line %-4s", $1, $2, $3; $1 = $2 = $3 = ""; print }'
grep 'assertion violated' report | tail -n 1
exit 1
