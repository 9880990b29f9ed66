package jstest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

var shared struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

// cleanups run when all tests have.
var cleanups []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, clean := range cleanups {
		clean()
	}
	if shared.cancel != nil {
		shared.cancel()
	}
	os.Exit(code)
}

func start(path string, options ...chromedp.ExecAllocatorOption) (context.Context, context.CancelFunc, error) {
	options = append([]chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	}, options...)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	both := func() { cancel(); stop() }
	if err := chromedp.Do(ctx); err != nil {
		both()
		return nil, nil, fmt.Errorf("Chromium does not start: %w", err)
	}
	return ctx, both, nil
}

func chromium(t *testing.T) string {
	t.Helper()
	return require(t, "Chromium", "ICHIDO_CHROMIUM", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
}

// A tab is one of a browser.
type tab struct {
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
}

// newTab opens a tab in a profile of its own, of the browser that all tests share.
func newTab(t *testing.T) *tab {
	t.Helper()
	path := chromium(t)
	shared.once.Do(func() {
		// A name that is not localhost makes a page an insecure context.
		shared.ctx, shared.cancel, shared.err = start(path, chromedp.Flag("host-resolver-rules", "MAP insecure.test 127.0.0.1"))
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return open(t, shared.ctx, chromedp.WithNewBrowserContext())
}

func open(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as this context: it has no timeout
		t.Fatal(err)
	}
	return &tab{t, ctx, cancel}
}

// another opens a second tab in the same profile.
func (p *tab) another() *tab { p.t.Helper(); return open(p.t, p.ctx) }

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// visit loads the page with the form, and returns when it is ready.
func (p *tab) visit(url string) {
	p.t.Helper()
	p.do(chromedp.Navigate(url))
	p.waitFor("window.ready")
}

func (p *tab) order() { p.t.Helper(); p.do(chromedp.Click(chromedp.CSS("button"))) }

// waitFor returns when a JavaScript expression is true, in the page that is there then.
func (p *tab) waitFor(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		// It fails while one page makes way for the next.
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if is {
			return
		}
		if ctx.Err() != nil {
			p.t.Fatalf("%s: not within %s (%v); %s", expression, patience, err,
				eval[string](p, "JSON.stringify([window.results, window.states, window.storage])"))
		}
		_ = chromedp.Do(ctx, chromedp.Sleep(10*time.Millisecond))
	}
}

// A result is how an operation ended in the page.
type result struct {
	Status                    int
	Body, Error, Key, Outcome string
}

// results waits for n of them.
func (p *tab) results(n int) []result {
	p.t.Helper()
	p.waitFor(fmt.Sprintf("window.results.length >= %d", n))
	var results []result
	if err := json.Unmarshal([]byte(eval[string](p, "JSON.stringify(window.results)")), &results); err != nil {
		p.t.Fatal(err)
	}
	if len(results) != n {
		p.t.Fatalf("%d results, want %d: %+v", len(results), n, results)
	}
	return results
}

// done waits for n results, and wants each to be the answer to the first order.
func (p *tab) done(n int) {
	p.t.Helper()
	for _, r := range p.results(n) {
		if r.Status != 201 || r.Body != "order 1 of chair" || r.Outcome != "done" {
			p.t.Errorf("a result is %+v", r)
		}
	}
}

// pending is how many operations the page knows as undecided.
func (p *tab) pending() int {
	p.t.Helper()
	return eval[int](p, "ichido.pending().then((all) => all.length)")
}

// eval returns the value of a JavaScript expression, or what its promise comes to.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

func call[P, R any](p *tab, command cdp.Command[P, R], params P) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, command, params); err != nil {
		p.t.Fatalf("%s: %v", command.Method, err)
	}
}

// newTabWithoutStorage opens a tab of a browser whose user forbids sites to store anything.
func newTabWithoutStorage(t *testing.T) *tab {
	t.Helper()
	profile := t.TempDir()
	if err := os.Mkdir(filepath.Join(profile, "Default"), 0o700); err != nil {
		t.Fatal(err)
	}
	preferences := `{"profile":{"default_content_setting_values":{"cookies":2}}}`
	if err := os.WriteFile(filepath.Join(profile, "Default", "Preferences"), []byte(preferences), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel, err := start(chromium(t), chromedp.UserDataDir(profile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return open(t, ctx)
}
