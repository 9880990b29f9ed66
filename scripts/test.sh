#!/usr/bin/env bash
# The one test command: installs what is missing, checks, and runs all tests of all modules with the race
# detector in one run, whose summary is the last line. Arguments go to `go test`, as in
# scripts/test.sh -run TestReplay
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

GOTESTSUM=v1.13.0

phase "setup" scripts/setup.sh
phase "test runner" tool gotest.tools/gotestsum "$GOTESTSUM"
((failures == 0)) || exit 1
# The checks first, since they take seconds; the tests run in any case, so that one run tells everything.
checks=0
scripts/check.sh || checks=1
if ((checks != 0)); then
	echo "==> CHECKS FAILED, see above. The tests follow; whatever they say, this run fails."
fi

mapfile -t all < <(patterns)
cores=$(nproc 2>/dev/null || echo 2)
# With more packages at once than cores, databases and the race detector slow each other into time-outs.
parallel=$((cores < 4 ? cores : 4))

printf '==> tests of %d modules, %d packages at a time\n' "${#all[@]}" "$parallel"
# Nothing may be skipped for want of a server. The race detector needs cgo.
export ICHIDO_TEST_REQUIRE=1 CGO_ENABLED=1
[[ ! -x $NODE ]] || export ICHIDO_NODE=${ICHIDO_NODE:-$NODE}
tests=0
"$BIN/gotestsum" --format pkgname --format-hide-empty-pkg -- \
	-race -shuffle=on -timeout 20m -p "$parallel" "$@" "${all[@]}" || tests=1
# Nothing is printed from here on: the last line is the summary of all tests.
exit $((tests != 0 || checks != 0))
