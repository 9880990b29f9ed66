#!/usr/bin/env bash
# Explores a model under the macros that are given, and shows step by step how it comes to what it finds, as in
#
#   scripts/model.sh lease                   (Hold)
#   scripts/model.sh lease RERUN NO_FENCING
#   scripts/model.sh steps PROVIDER_KNOWS_NO_KEYS
#
# docs/design/007-lease-model.md and 008-steps-model.md say what there is. The tests of package model run what has to hold.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# -gt 0 && -f "$ROOT/model/$1.pml" ]] || die "give a model, lease or steps, and macros"
command -v spin >/dev/null || die "Spin is missing (Debian's package: spin); scripts/setup.sh installs it"

model="$ROOT/model/$1.pml"
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
macros=("${@/#/-D}")
# Small steps (-o3), and the shortest way (-i) to what is found.
spin "${macros[@]}" -o3 -a "$model"
gcc -O2 -DSAFETY -DREACH -o pan pan.c
./pan -m100000 -w23 -i >report
trail=$(basename "$model").trail
if [[ ! -e $trail ]]; then
	cat report
	exit 0
fi
# Steps that change nothing, such as those that test a condition, are left out.
spin "${macros[@]}" -o3 -t -p -k "$trail" "$model" |
	sed -n 's/^ *[0-9]*:\tproc *\([0-9]*\) (\([A-Z][a-z]*\):1) .*\.pml:\([0-9]*\) (state [0-9]*)\t\[\(.*\)\]$/\2 \1 \3 \4/p' |
	awk '$5 == "=" { printf "%-8s %d  line %-4s", $1, $2, $3; $1 = $2 = $3 = ""; print }'
grep 'assertion violated' report | tail -n 1
exit 1
