#!/usr/bin/env bash
# Guards what the modules may depend on, and in which direction:
#
#   1. The root module needs the standard library and the JSON tokenizer, nothing else.
#   2. It builds by itself, outside of the workspace, where its go.mod is all there is.
#   3. No go.mod has a replace: with one, nobody could `go install` the program.
#   4. The root package imports internal/ only, internal/ imports no store, and nobody imports cmd/.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ALLOWED='github.com/go-json-experiment/json'
failed=0
complain() {
	printf '%s\n' "$@" >&2
	failed=1
}

# 1. Packages, on each system, since a file for one of them may import more. Told are the imports that
# lead from what is allowed to what is not, and not all that comes in their train. Errors are left to
# the compiler (-e): a package that is not found at all is still listed.
for system in linux darwin windows; do
	bad=$(GOOS=$system go list -e -deps -f '{{if not .Standard}}{{.ImportPath}} {{with .Module}}{{.Path}}{{else}}-{{end}} {{join .Imports " "}}{{end}}' ./... |
		awk -v self="$MODULE" -v allowed="$ALLOWED" '
			{ good[$1] = $2 == self || $2 == allowed; known[$1] = 1; line[NR] = $0 }
			END {
				for (n = 1; n <= NR; n++) {
					fields = split(line[n], f, " ")
					for (i = 3; good[f[1]] && i <= fields; i++)
						if (known[f[i]] && !good[f[i]]) print "  " f[1] " imports " f[i]
				}
			}')
	if [[ -n $bad ]]; then
		complain "The root module may import the standard library and $ALLOWED only ($system):" "$bad" \
			"  Move the code to a module of its own, or do without."
		break
	fi
done

# 1. The go.mod, whatever the packages say.
requires=$(GOWORK=off go mod edit -json | awk '
	/"Require": \[/ { inside = 1 }
	inside && /"Path":/ { gsub(/[",]/, "", $2); print $2 }
	inside && /^\t\]/ { inside = 0 }')
for path in $requires; do
	[[ $path == "$ALLOWED" ]] || complain "go.mod requires $path. The root module may only require $ALLOWED."
done

# 2. Tests included: in the workspace they could use what only another module requires.
if [[ $failed == 0 ]] && ! GOWORK=off go vet ./...; then
	complain "The root module does not build outside of the workspace (GOWORK=off go vet ./...)."
fi

# 3.
for module in $(modules); do
	if grep -Hn '^replace' "$module/go.mod" >&2; then
		complain "$module/go.mod has a replace directive. The folders are tied together in go.work."
	fi
done

# 4. "importer importee" for every import of ours by ours; the second list has the tests' imports too.
edges='{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}'
test_edges='{{$p := .ImportPath}}{{range .TestImports}}{{$p}} {{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{$p}} {{.}}{{"\n"}}{{end}}'
mapfile -t all < <(patterns)
while read -r importer importee; do
	[[ $importee == "$MODULE" || $importee == "$MODULE"/* ]] || continue
	case $importer in
	"$MODULE")
		[[ $importee == "$MODULE"/internal/* ]] ||
			complain "The root package imports $importee. It may import packages under internal/ only: stores know the root, not the other way round."
		;;
	"$MODULE"/internal/*)
		[[ $importee == "$MODULE" || $importee == "$MODULE"/internal/* ]] ||
			complain "$importer imports $importee. Packages under internal/ are helpers of the others, which may import them, not the other way round."
		;;
	esac
done < <(go list -e -f "$edges" "${all[@]}" 2>/dev/null)
while read -r importer importee; do
	if [[ $importee == "$MODULE"/cmd/* && $importer != "$MODULE"/cmd/* ]]; then
		complain "$importer imports $importee. Nobody imports cmd/."
	fi
done < <(go list -e -f "$edges$test_edges" "${all[@]}" 2>/dev/null)

exit $failed
