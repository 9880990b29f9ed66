package jstest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

func TestChromiumDoubleClick(t *testing.T) {
	s, p := newServer(t, hold), newTab(t)
	p.visit(s.url)
	p.order()
	p.order()
	s.waitHeld()
	p.order()
	s.release()
	p.done(3)
	s.check(1, "chair")
	if n := s.sendings(); n != 1 {
		t.Errorf("%d sendings", n)
	}
}

func TestChromiumNextOrderIsANewOne(t *testing.T) {
	s, p := newServer(t), newTab(t)
	p.visit(s.url)
	p.order()
	p.results(1)
	p.order()
	p.results(2)
	s.check(2, "chair", "chair")
	if n := p.pending(); n != 0 {
		t.Errorf("%d operations are kept", n)
	}
}

func TestChromiumLostAnswers(t *testing.T) {
	s, p := newServer(t, cut, lose, busy, vanish, lose), newTab(t)
	p.visit(s.url)
	p.order()
	p.done(1)
	s.check(1, "chair")
	if n := s.sendings(); n != 6 {
		t.Errorf("%d sendings", n)
	}
}

// Chromium sends a POST again without asking when the connection that it used again breaks.
func TestChromiumSendsAgainByItself(t *testing.T) {
	s, p := newServer(t, none, vanish), newTab(t)
	p.visit(s.url + "/?attempts=1")
	p.order()
	p.results(1)
	p.order()
	if r := p.results(2)[1]; r.Body != "order 2 of chair" {
		t.Errorf("the result is %+v", r)
	}
	s.check(2, "chair", "chair")
	if n := s.sendings(); n != 3 {
		t.Errorf("%d sendings", n)
	}
}

func TestChromiumReloadWhilePending(t *testing.T) {
	s, p := newServer(t, hold), newTab(t)
	p.visit(s.url)
	p.order()
	s.waitHeld()
	p.do(chromedp.Reload())
	s.waitSendings(2) // answered 409, since the first attempt is in progress
	p.waitFor(`window.states.includes("waiting")`)
	s.release()
	p.done(1)
	s.check(1, "chair")
	if n := p.pending(); n != 0 {
		t.Errorf("%d operations are kept", n)
	}
}

func TestChromiumReloadAndSubmitAgain(t *testing.T) {
	s, p := newServer(t, lose, lose), newTab(t)
	p.visit(s.url + "/?attempts=1")
	p.order()
	if r := p.results(1)[0]; r.Error != "UnknownError" || r.Outcome != "unknown" {
		t.Errorf("the result is %+v", r)
	}
	p.visit(s.url + "/?attempts=1") // which resumes, and loses the answer too
	p.results(1)
	p.order()
	if r := p.results(2)[1]; r.Status != 201 || r.Outcome != "done" {
		t.Errorf("the result is %+v", r)
	}
	s.check(1, "chair")
}

func TestChromiumTwoTabs(t *testing.T) {
	s, p := newServer(t, hold), newTab(t)
	q := p.another()
	p.visit(s.url)
	q.visit(s.url)
	p.order()
	s.waitHeld()
	q.order()
	q.waitFor(`window.states.includes("queued")`)
	if n := s.sendings(); n != 1 {
		t.Errorf("%d sendings while the first tab sends", n)
	}
	s.release()
	p.done(1)
	q.done(1)
	s.check(1, "chair")
	if n := q.pending(); n != 0 {
		t.Errorf("%d operations are kept", n)
	}
}

func TestChromiumTabClosedWhileAnotherWaits(t *testing.T) {
	s, p := newServer(t, hold), newTab(t)
	q := p.another()
	p.visit(s.url)
	q.visit(s.url)
	q.order()
	s.waitHeld()
	p.order()
	p.waitFor(`window.states.includes("queued")`)
	q.cancel()
	s.waitSendings(2)
	s.release()
	p.done(1)
	s.check(1, "chair")
}

func TestChromiumBackButton(t *testing.T) {
	for name, query := range map[string]string{"to the page as it was": "", "to the page anew": "?uncached"} {
		t.Run(name, func(t *testing.T) {
			s, p := newServer(t, hold), newTab(t)
			p.visit(s.url + "/" + query)
			p.order()
			s.waitHeld()
			eval[any](p, "window.before = true")
			p.do(chromedp.Navigate(s.url + "/elsewhere"))
			s.release()
			eval[any](p, "history.back()")
			p.done(1)
			if same := eval[bool](p, "!!window.before"); same != (query == "") {
				t.Errorf("the page is as it was: %v", same)
			}
			eval[any](p, `document.querySelector("button").click()`) // the driver has lost the nodes of a page that comes back
			if r := p.results(2)[1]; r.Body != "order 2 of chair" {  // a new one, since the first is decided
				t.Errorf("the result is %+v", r)
			}
			s.check(2, "chair", "chair")
		})
	}
}

func TestChromiumOffline(t *testing.T) {
	s, p := newServer(t), newTab(t)
	p.visit(s.url)
	offline := func(off bool) {
		call(p, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}},
		})
		call(p, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: off, DownloadThroughput: -1, UploadThroughput: -1})
	}
	offline(true)
	p.waitFor("!navigator.onLine")
	p.order()
	p.waitFor(`window.states.includes("offline")`)
	if n := p.pending(); n != 1 {
		t.Errorf("%d operations are kept", n)
	}
	offline(false)
	p.done(1)
	s.check(1, "chair")
	if n := s.sendings(); n != 1 {
		t.Errorf("%d sendings", n)
	}
}

func TestChromiumLoggedOutWhileUndecided(t *testing.T) {
	s, p := newServer(t, lose, login), newTab(t)
	p.visit(s.url)
	p.order()
	if r := p.results(1)[0]; r.Status != 401 || r.Outcome != "unknown" {
		t.Errorf("the result is %+v", r)
	}
	p.visit(s.url) // after the login
	p.done(1)
	s.check(1, "chair")
}

func TestChromiumOtherContentWhileUndecided(t *testing.T) {
	s, p := newServer(t, lose), newTab(t)
	p.visit(s.url + "/?attempts=1")
	p.order()
	first := p.results(1)[0]
	p.do(chromedp.SetValue(chromedp.CSS("input"), "desk"))
	p.order()
	if r := p.results(2)[1]; r.Error != "MismatchError" {
		t.Errorf("the result is %+v", r)
	}
	s.check(1, "chair")
	eval[bool](p, `ichido.createOperation({ name: "order" }).discard().then(() => true)`)
	p.order()
	if r := p.results(3)[2]; r.Status != 201 || r.Key == first.Key {
		t.Errorf("the result is %+v", r)
	}
	s.check(2, "chair", "desk")
}

func TestChromiumStorageDisabled(t *testing.T) {
	s, p := newServer(t, cut, hold), newTabWithoutStorage(t)
	p.visit(s.url)
	p.order()
	s.waitHeld()
	p.order()
	s.release()
	p.done(2)
	s.check(1, "chair")
	if told := eval[string](p, "window.storage.join()"); !strings.Contains(told, "Error") {
		t.Errorf("onstorage was told %q", told)
	}
}

func TestChromiumInsecureContext(t *testing.T) {
	s, p := newServer(t, hold), newTab(t)
	url := strings.Replace(s.url, "127.0.0.1", "insecure.test", 1)
	q := p.another()
	p.visit(url)
	q.visit(url)
	if eval[bool](p, "isSecureContext || 'locks' in navigator || 'randomUUID' in crypto") {
		t.Fatal("the context is secure")
	}
	p.order()
	s.waitHeld()
	q.order() // without locks it sends at once, under the same key
	q.waitFor(`window.states.includes("waiting")`)
	p.do(chromedp.Reload())
	s.release()
	p.done(1)
	q.done(1)
	s.check(1, "chair")
	if key := p.results(1)[0].Key; !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(key) {
		t.Errorf("the key is %q", key)
	}
}

func TestChromiumSessionStorage(t *testing.T) {
	s, p := newServer(t, lose), newTab(t)
	p.visit(s.url + "/?store=session&attempts=1")
	p.order()
	p.results(1)
	q := p.another()
	q.visit(s.url + "/?store=session")
	if n := eval[int](q, "sessionStorage.length"); n != 0 {
		t.Errorf("the other tab has %d entries", n)
	}
	p.visit(s.url + "/?store=session")
	p.done(1)
	s.check(1, "chair")
}

func TestChromiumFormWithAFile(t *testing.T) {
	s, p := newServer(t), newTab(t)
	p.visit(s.url)
	got := eval[string](p, `(async () => {
		const form = new FormData();
		form.append("item", "椅子\nor desk");
		form.append("file", new File(["raw\nbytes"], 'a"b.txt', { type: "text/plain" }));
		return (await ichido.createOperation().fetch("/upload", { method: "POST", body: form })).text();
	})()`)
	if want := `"椅子\r\nor desk" "a%22b.txt" "text/plain" "raw\nbytes"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestChromiumFormOfTheReadme(t *testing.T) {
	for language, unknown := range map[string]string{"en": "We do not know yet", "ja": "まだ分かりません"} {
		t.Run(language, func(t *testing.T) {
			s, p := newServer(t, lose, none, hold), newTab(t)
			said := func(text string) {
				p.waitFor(fmt.Sprintf(`document.querySelector("output").textContent.includes(%q)`, text))
			}
			p.do(chromedp.Navigate(s.url + "/readme/" + language + "/"))
			p.order()
			said("order 1 of chair")
			p.order()
			s.waitHeld()
			p.do(chromedp.Reload())
			s.release()
			said("order 2 of chair")
			s.check(2, "chair", "chair")
			s.change(func() { s.faults = []fault{lose, lose, lose, lose, lose, lose} })
			p.order()
			said(unknown)
			p.order()
			said("order 3 of chair")
			s.check(3, "chair", "chair", "chair")
		})
	}
}
