package jstest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// program is the path of ichido, built once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "jstest")
	if err != nil {
		return "", err
	}
	cleanups = append(cleanups, func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "ichido")
	out, err := exec.Command("go", "build", "-o", path, "github.com/ichido-dev/ichido/cmd/ichido").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building ichido: %w\n%s", err, out)
	}
	return path, err
})

// An office is a running ichido serve behind a proxy that can lose what is sent.
type office struct {
	*server // the proxy: its url is where browsers go
	dir     string
	flags   []string
	process *exec.Cmd
	api     string // the url of the process
}

// newOffice starts one. The faults are those of the next reservations.
func newOffice(t *testing.T, flags []string, faults ...fault) *office {
	t.Helper()
	o := &office{dir: t.TempDir(), flags: flags,
		server: &server{t: t, faults: faults, changed: make(chan struct{}), released: make(chan struct{})}}
	o.start()
	t.Cleanup(o.kill)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		target, err := url.Parse(o.at())
		if err != nil {
			panic(err)
		}
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // as if it were not there
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	lossy := o.faulty(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Hold") != "" {
			r.Header.Del("X-Hold")
			o.change(func() { o.held++ })
			<-o.released
		}
		proxy.ServeHTTP(w, r)
	}))
	mux.Handle("POST /reservations", lossy)
	mux.Handle("POST /book", lossy)
	web := httptest.NewUnstartedServer(mux)
	web.Config.ErrorLog = nil
	web.Start()
	o.url = web.URL
	t.Cleanup(func() {
		o.release()
		web.CloseClientConnections()
		web.Close()
	})
	return o
}

func (o *office) at() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.api
}

// start runs the process; after kill it goes on with the same data.
func (o *office) start() {
	o.t.Helper()
	o.process = run(o.t, o.dir, append([]string{"serve", "--addr", "localhost:0"}, o.flags...), func(at string) {
		o.change(func() { o.api = at })
	})
}

func (o *office) kill() {
	_ = o.process.Process.Kill()
	_ = o.process.Wait()
}

// run starts ichido in a directory, and waits until it says where it is.
func run(t *testing.T, dir string, args []string, ready func(url string)) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	var talk strings.Builder
	cmd.Stderr = &talk
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, at, ok := strings.Cut(strings.TrimSpace(line), " at ")
	if !ok {
		_ = cmd.Wait()
		t.Fatalf("ichido %v said %q: %v\n%s", args, line, err, talk.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	ready(at)
	return cmd
}

// newProvider starts ichido fakepay.
func newProvider(t *testing.T, flags ...string) (url string) {
	t.Helper()
	cmd := run(t, t.TempDir(), append([]string{"fakepay", "--addr", "localhost:0"}, flags...), func(at string) { url = at })
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return url
}

// get reads JSON from a server.
func get(t *testing.T, url string, into any) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode != 200 {
		t.Fatalf("%s: %s: %v", url, response.Status, err)
	}
}

// bookings are the ids of what is booked under a name.
func (o *office) bookings(name string) (ids []int64) {
	o.t.Helper()
	var all struct{ Reservations []struct{ ID int64 } }
	get(o.t, o.at()+"/reservations?reserved_by="+url.QueryEscape(name), &all)
	for _, r := range all.Reservations {
		ids = append(ids, r.ID)
	}
	return ids
}

func (o *office) wantBookings(name string, n int) {
	o.t.Helper()
	if ids := o.bookings(name); len(ids) != n {
		o.t.Errorf("%d bookings of %s, want %d: %v", len(ids), name, n, ids)
	}
}

// openPage loads a page.
func (p *tab) openPage(url string) { p.t.Helper(); p.do(chromedp.Navigate(url)) }

// openOffice loads the page of the office, and returns when its script has run.
func (p *tab) openOffice(url string) {
	p.t.Helper()
	p.openPage(url)
	p.waitFor(`"ready" in document.documentElement.dataset`)
}

// fill puts a booking into the form.
func (p *tab) fill(item, quantity, name string) {
	p.t.Helper()
	eval[any](p, fmt.Sprintf(`{
		const form = document.querySelector("#book");
		form.querySelector("[value=%s]").checked = true;
		form.quantity.value = %q;
		form.reserved_by.value = %q;
	}`, item, quantity, name))
}

// book submits the form, as a click does.
func (p *tab) book(item, quantity, name string) {
	p.t.Helper()
	p.fill(item, quantity, name)
	p.do(chromedp.Click(chromedp.CSS("#book button")))
}
