package pgtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

const workdirPrefix = "ichido-pg-"

// workdir is a temporary directory that belongs to the account the servers run as. A lock on a file in
// it, which the kernel drops when this process dies in whatever way, tells later runs that the
// directory is abandoned: a test binary that times out or is killed runs no cleanup.
type workdir struct {
	path    string
	lock    *os.File
	removed bool
}

func newWorkdir() (*workdir, error) {
	sweepOnce()
	path, err := os.MkdirTemp("", workdirPrefix)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	w := &workdir{path: path}
	w.lock, err = os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = tryLock(w.lock)
	}
	if err == nil {
		err = giveToServiceUser(path)
	}
	if err != nil {
		w.remove()
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	return w, nil
}

func (w *workdir) remove() {
	// Twice would be once too often: the name may belong to somebody else by then.
	if w.removed {
		return
	}
	w.removed = true
	// Server processes that are still going down may write one last file while we delete.
	for range 20 {
		if os.RemoveAll(w.path) == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if w.lock != nil {
		w.lock.Close()
	}
}

var sweepOnce = sync.OnceFunc(sweep)

// sweep deletes the directories that earlier processes left behind.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), workdirPrefix+"*"))
	for _, dir := range dirs {
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue // Another user's, or one that is being made or deleted.
		}
		info, err := lock.Stat()
		// The owner creates the file and then locks it; one so young may be between the two.
		if err == nil && time.Since(info.ModTime()) > time.Minute {
			if free, err := tryLock(lock); err == nil && free {
				os.RemoveAll(dir)
			}
		}
		lock.Close()
	}
}

// freePort finds a TCP port on the loopback address. It stays below the range that the kernel hands to
// outgoing connections (32768 and up on Linux), else one of those could sit on the port just when a
// server wants to come back on it.
func freePort() (int, error) {
	for range 200 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, errors.New("pgtest: no free TCP port between 20000 and 32000")
}
