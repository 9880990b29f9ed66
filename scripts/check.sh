#!/usr/bin/env bash
# Everything that is checked without running the code: format, vet, staticcheck, dependencies, and the
# files that must be there. It goes on after a failure, to report all of them at once.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

STATICCHECK=v0.8.2

check_format() {
	local files
	files=$(gofmt -l .)
	[[ -z $files ]] || die "not formatted (run gofmt -w): "$'\n'"$files"
}

check_files() {
	local file
	for file in LICENSE README.md README.ja.md; do
		[[ -s $file ]] || die "$file is missing or empty"
	done
}

check_static() {
	tool honnef.co/go/tools/cmd/staticcheck "$STATICCHECK"
	"$BIN/staticcheck" "${all[@]}"
}

mapfile -t all < <(patterns)
((${#all[@]} > 0)) || die "go list -m found no modules"

phase "gofmt" check_format
phase "go vet" go vet "${all[@]}"
phase "staticcheck" check_static
phase "dependencies and layers" scripts/deps.sh
phase "required files" check_files
exit $((failures > 0))
