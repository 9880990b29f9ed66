package crashtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/internal/pgtest"
)

// patience bounds every wait.
const patience = 2 * time.Minute

// A world is one test: a database, a provider, and processes that come and go.
type world struct {
	*testing.T
	database string
	policy   string // hold or rerun
	provider *provider

	path    string // where clients send to
	outside string // the URL of what the handler calls
}

var (
	engines  = []string{"sqlite", "postgres"}
	policies = []string{"hold", "rerun"}
)

// on runs a test on both databases and with both policies.
func on(t *testing.T, test func(w *world)) {
	for _, engine := range engines {
		for _, policy := range policies {
			t.Run(engine+"/"+policy, func(t *testing.T) {
				t.Parallel()
				test(newWorldOn(t, engine, policy))
			})
		}
	}
}

// newWorldOn makes a world with a database of its own.
func newWorldOn(t *testing.T, engine, policy string) *world {
	location := filepath.Join(t.TempDir(), "crash.db")
	if engine == "postgres" {
		location = pgtest.Shared(t).NewDatabase(t)
	}
	return newWorld(t, location, policy)
}

func newWorld(t *testing.T, location, policy string) *world {
	w := &world{T: t, database: location, policy: policy, provider: newProvider(t), path: "/charges"}
	w.outside = w.provider.URL
	if _, err := w.store().Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// store opens the database for a look.
func (w *world) store() leaseStore {
	w.Helper()
	e, err := openEngine(context.Background(), w.database)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(e.close)
	return e.leaseStore
}

// A provider charges once for each call: it is not idempotent, so that what ichido does twice is seen.
type provider struct {
	*httptest.Server
	mu      sync.Mutex
	charges map[string][]string // by key
	n       int
}

func newProvider(t *testing.T) *provider {
	p := &provider{charges: make(map[string][]string)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		key := r.URL.Query().Get("key")
		if r.Method == http.MethodPost {
			p.n++
			p.charges[key] = append(p.charges[key], fmt.Sprint("c", p.n))
		}
		if all := p.charges[key]; len(all) > 0 {
			fmt.Fprint(w, all[len(all)-1])
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// of returns the charges under a key.
func (p *provider) of(key string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges[`"`+key+`"`]
}

// A process is a server.
type process struct {
	url  string
	path string
	cmd  *exec.Cmd
	done chan struct{}

	renewing sync.Mutex // held between the points before and after a renewal
}

// start starts a server. at, if not nil, is called when it is at a point, and the process goes on when it has returned.
// Renewals are points only while the handler waits for one. Without at nothing is reported, and the handler does not wait.
func (w *world) start(at func(p *process, point string)) *process {
	w.Helper()
	lease := shortLease
	if at == nil {
		lease = longLease
	}
	return w.launch(at, lease, true)
}

// isRenewal reports whether a point is met only if the handler waits for it.
func isRenewal(point string) bool { return strings.HasPrefix(point, "renew") }

// launch is start, of a server with the lease, whose handler waits for a heartbeat or does not.
func (w *world) launch(at func(p *process, point string), lease time.Duration, heartbeat bool) *process {
	w.Helper()
	p := &process{path: w.path, done: make(chan struct{})}
	ready := make(chan struct{})
	control := ""
	if at != nil {
		renewed := make(chan struct{})
		var once sync.Once
		var waiting, met atomic.Bool // met: a renewal began while the handler waits
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			<-ready
			if r.URL.Path == "/renewal" {
				if !heartbeat {
					return
				}
				waiting.Store(true)
				select {
				case <-renewed:
				case <-r.Context().Done():
				case <-p.done:
				}
				return
			}
			switch point := r.URL.Query().Get("at"); point {
			case "renew before":
				if waiting.Load() {
					met.Store(true)
					at(p, point)
				}
				p.renewing.Lock()
			case "renew after":
				p.renewing.Unlock()
				if met.Load() {
					at(p, point)
					once.Do(func() { close(renewed) })
				}
			default:
				at(p, point)
			}
		}))
		w.Cleanup(server.Close)
		control = server.URL
	}
	self, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), serverVariable+"="+w.database, policyVariable+"="+w.policy,
		controlVariable+"="+control, providerVariable+"="+w.outside, leaseVariable+"="+lease.String())
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	var log strings.Builder
	p.cmd.Stderr = &log
	if err := p.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	p.url = strings.TrimSpace(line)
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	w.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		p.kill()
		if w.Failed() {
			w.Logf("a server said:\n%s", log.String())
		}
	})
	if err != nil {
		w.Fatalf("the server did not start: %v", err)
	}
	close(ready)
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// pause stops a process, and waits until it has stopped, before the point is answered: else it stops anywhere behind it.
func (w *world) pause(p *process) {
	p.signal(syscall.SIGSTOP)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		if err == nil && strings.HasPrefix(state, "T") {
			return
		}
		if time.Now().After(end) {
			w.Errorf("the process did not stop: %s, %v", stat, err)
			return
		}
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// An answer is what a client gets. Status 0 means that the connection broke.
type answer struct {
	status   int
	body     string
	replayed bool
	code     string // of a problem
}

var client = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

func send(p *process, key string) answer {
	req, err := http.NewRequest("POST", p.url+p.path, strings.NewReader(`{"amount":100}`))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	res, err := client.Do(req)
	if err != nil {
		return answer{}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}
	}
	a := answer{status: res.StatusCode, body: string(body), replayed: res.Header.Get("Idempotent-Replayed") == "true"}
	if _, rest, ok := strings.Cut(a.body, `"code":"`); ok {
		a.code, _, _ = strings.Cut(rest, `"`)
	}
	return a
}

// sendUntilDefinite sends as a client does: again and again under the same key, until it is told that it took effect, or
// that nobody knows.
func (w *world) sendUntilDefinite(p *process, key string) answer {
	w.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		a := send(p, key)
		switch {
		case a.status == 201 || a.code == "outcome-unknown":
			return a
		case a.status == 0 || a.status == 409 || a.status >= 500:
			time.Sleep(50 * time.Millisecond) // a client's pause
		default:
			w.Fatalf("answered %+v", a)
		}
	}
	w.Fatal("no definite answer")
	return answer{}
}

// sendWhileAlive sends as a client does, to a process until that has died, and returns no answer then; or the answer, if it
// takes effect after all.
func (w *world) sendWhileAlive(p *process, key string) answer {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if a := send(p, key); a.status == 201 {
			return a
		}
		select {
		case <-p.done:
			return answer{}
		case <-time.After(50 * time.Millisecond): // a client's pause
		}
	}
	w.Errorf("%s: no definite answer", key)
	p.kill()
	return answer{}
}

// sweep has the server ask the provider about what is unknown.
func (w *world) sweep(p *process) {
	w.Helper()
	if said, err := call("POST", p.url+"/sweep"); err != nil || !strings.HasSuffix(said, "<nil>") {
		w.Fatalf("sweeping: %s, %v", said, err)
	}
}
