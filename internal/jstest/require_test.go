package jstest

import (
	"os"
	"os/exec"
	"testing"
)

// require returns the path of the first of the programs that is there; without one the test is skipped, or fails where
// nothing may be skipped. The variable, if it is set, names the program.
func require(t *testing.T, what, variable string, programs ...string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path // whoever names one wants that one, not a silent skip
	}
	for _, program := range programs {
		if path, err := exec.LookPath(program); err == nil {
			return path
		}
	}
	const advice = "%s not found. `make test` installs what is missing on Debian and Ubuntu; or install it yourself, or name the program in %s"
	if os.Getenv("ICHIDO_TEST_REQUIRE") == "1" {
		t.Fatalf(advice, what, variable)
	}
	t.Skipf(advice, what, variable)
	return ""
}
