package crashtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Leases and retention are computed by the clock of the database. So that the clock of a host cannot have a say, however
// it jumps, no store with a database reads one. (What the Manager measures are spans of its own monotonic clock.)
func TestStoresReadNoClockOfTheirOwn(t *testing.T) {
	for _, dir := range []string{"../../pgstore", "../../sqlstore"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) < 5 {
			t.Fatalf("%d files in %s, %v", len(files), dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if p, ok := call.X.(*ast.Ident); ok && p.Name == "time" {
					switch call.Sel.Name {
					case "Now", "Since", "Until":
						t.Errorf("%s: time.%s", set.Position(n.Pos()), call.Sel.Name)
					}
				}
				return true
			})
		}
	}
}
