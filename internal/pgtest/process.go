package pgtest

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// process is a running child. done is closed when it has ended and was waited for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// spawn starts a server program that dies with us, its output appended to logFile.
func spawn(dir, logFile, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // The child has a descriptor of its own.
	cmd := exec.Command(program, args...)
	cmd.Dir = dir // Ours may be closed to the service user.
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = log, log
	if err := prepare(cmd); err != nil {
		return nil, err
	}
	if err := startOnLivingThread(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// end sends the signal and waits; it reports whether the process ended in time.
func (p *process) end(sig os.Signal, wait time.Duration) bool {
	p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
		return true
	case <-time.After(wait):
		return false
	}
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// livingThread is an OS thread that never ends. The kernel sends a child its parent-death signal when
// the thread that started it ends, not the process, and Go ends threads as it likes: started from any
// goroutine, a server would die in the middle of a test now and then.
var livingThread = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

func startOnLivingThread(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	livingThread() <- func() { result <- cmd.Start() }
	return <-result
}
