//go:build !linux

package pgtest

import (
	"os"
	"os/exec"
)

// Elsewhere than on Linux servers run as the tests' own user, and outlive a test binary that is killed.

func prepare(*exec.Cmd) error        { return nil }
func giveToServiceUser(string) error { return nil }
func tryLock(*os.File) (bool, error) { return false, nil }
func killTree(p *os.Process)         { p.Kill() }
func children(int) []int             { return nil }
