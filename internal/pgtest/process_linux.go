package pgtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// serviceUser is the account that servers run as: ours, unless we are root, which PostgreSQL and
// PgBouncer both refuse to run as.
var serviceUser = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("servers do not run as root, and there is no user postgres or nobody to run them as")
})

// prepare makes the command run as the service user, and die with us. The signal is SIGQUIT, which
// ends any program, and which PostgreSQL takes as "stop at once": it still ends its children and removes
// its sockets and shared memory.
func prepare(cmd *exec.Cmd) error {
	credential, err := serviceUser()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: credential,
		Pdeathsig:  syscall.SIGQUIT,
		// A process group of its own, so that Ctrl-C in a terminal reaches the tests and not the
		// server, which would die under tests that are still cleaning up.
		Setpgid: true,
	}
	return nil
}

func giveToServiceUser(path string) error {
	credential, err := serviceUser()
	if err != nil || credential == nil {
		return err
	}
	return os.Chown(path, int(credential.Uid), int(credential.Gid))
}

// tryLock takes the file's lock, or reports false when another process holds it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// killTree kills the process and its children without any chance to tidy up. The parent is stopped
// first, so that no child is born after we looked.
func killTree(p *os.Process) {
	p.Signal(syscall.SIGSTOP)
	pids := children(p.Pid)
	p.Kill()
	for _, pid := range pids {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// children reads them from /proc. PostgreSQL's put themselves into process groups of their own, so a
// signal to the group would not reach them.
func children(parent int) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // It ended meanwhile.
		}
		// "pid (name) state ppid ...", and the name may hold spaces and parentheses.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
