package jstest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Each walk over the page ends in one booking.

// said waits until the part of the page with that id says something of a kind, and returns it.
func (p *tab) said(id, kind string) string {
	p.t.Helper()
	p.waitFor(fmt.Sprintf(`document.querySelector("#%s[data-kind=%s]")`, id, kind))
	return eval[string](p, fmt.Sprintf(`document.querySelector("#%s").innerText`, id))
}

// listed waits until "my bookings" has n entries.
func (p *tab) listed(n int) {
	p.t.Helper()
	p.waitFor(fmt.Sprintf(`document.querySelectorAll("#bookings li").length === %d`, n))
}

func TestOfficeDoubleClick(t *testing.T) {
	o, p := newOffice(t, nil), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.fill("PJ-001", "1", "Taro")
	// The server answers between the two clicks.
	eval[any](p, `new Promise((resolve) => {
		const button = document.querySelector("#book button");
		new MutationObserver((_, observer) => {
			if (!document.querySelector("#book-status[data-kind=good]")) return;
			observer.disconnect();
			resolve(button.click());
		}).observe(document.querySelector("#book-status"), { attributes: true });
		button.click();
	})`)
	if said := p.said("book-status", "good"); said != "Booked: Projector × 1, no. 1." {
		t.Errorf("said %q", said)
	}
	p.listed(1)
	if left := eval[string](p, `document.querySelector("#left-PJ-001").textContent`); left != "29 left" {
		t.Errorf("%q", left)
	}
	// If the second click had been on its way, this would come behind it.
	p.book("CH-201", "1", "Taro")
	p.waitFor(`document.querySelector("#book-status").textContent.includes("Office chair × 1, no. 2.")`)
	o.wantBookings("Taro", 2)
	if n := o.sendings(); n != 2 {
		t.Errorf("%d sendings", n)
	}
}

func TestOfficeDoubleClickWhilePending(t *testing.T) {
	o, p := newOffice(t, nil, hold), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.book("PJ-001", "1", "Taro")
	o.waitHeld()
	p.book("PJ-001", "1", "Taro")
	o.release()
	p.said("book-status", "good")
	o.wantBookings("Taro", 1)
	if n := o.sendings(); n != 1 {
		t.Errorf("%d sendings", n)
	}
}

// What is meant twice is two bookings.
func TestOfficeTwoBookings(t *testing.T) {
	o, p := newOffice(t, nil), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.book("PJ-001", "1", "Taro")
	p.listed(1)
	p.book("CH-201", "2", "Taro")
	p.listed(2)
	o.wantBookings("Taro", 2)
}

func TestOfficeReloadWhilePending(t *testing.T) {
	o, p := newOffice(t, nil, hold), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.book("PJ-001", "1", "Taro")
	o.waitHeld()
	p.do(chromedp.Reload())
	p.said("book-status", "good")
	o.release()
	o.wantBookings("Taro", 1)
	if n := eval[int](p, `import("/ichido.js").then(({ pending }) => pending()).then((all) => all.length)`); n != 0 {
		t.Errorf("%d operations are kept", n)
	}
}

func TestOfficeLostAnswer(t *testing.T) {
	o, p := newOffice(t, nil, cut, lose, vanish), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.book("PJ-001", "1", "Taro")
	if said := p.said("book-status", "good"); !strings.Contains(said, "no. 1.") || !strings.Contains(said, "first answer") {
		t.Errorf("said %q", said)
	}
	o.wantBookings("Taro", 1)
	o.check(1)
}

func TestOfficeTwoTabs(t *testing.T) {
	o, p := newOffice(t, nil, hold), newTab(t)
	q := p.another()
	p.openOffice(o.url + "/?lang=en")
	q.openOffice(o.url + "/?lang=ja")
	p.book("PJ-001", "1", "Taro")
	o.waitHeld()
	q.book("PJ-001", "1", "Taro")
	q.waitFor(`document.querySelector("#book-status").textContent.includes("別のタブ")`)
	o.release()
	p.said("book-status", "good")
	q.said("book-status", "good")
	o.wantBookings("Taro", 1)
}

func TestOfficeBackButton(t *testing.T) {
	o, p := newOffice(t, nil, hold), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.book("PJ-001", "1", "Taro")
	o.waitHeld()
	p.openPage(o.url + "/docs?lang=en")
	o.release()
	eval[any](p, "history.back()")
	p.said("book-status", "good")
	o.wantBookings("Taro", 1)
}

func (p *tab) offline(off bool) {
	p.t.Helper()
	call(p, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}},
	})
	call(p, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: off, DownloadThroughput: -1, UploadThroughput: -1})
}

func TestOfficeOffline(t *testing.T) {
	o, p := newOffice(t, nil), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.offline(true)
	p.waitFor("!navigator.onLine")
	p.book("PJ-001", "1", "Taro")
	if said := p.said("book-status", "wait"); !strings.Contains(said, "is kept") {
		t.Errorf("said %q", said)
	}
	p.offline(false)
	p.said("book-status", "good")
	p.listed(1)
	o.wantBookings("Taro", 1)
}

// Another booking has to wait until the first one's outcome is known.
func TestOfficeUndecidedComesFirst(t *testing.T) {
	o, p := newOffice(t, nil, lose, login), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.book("PJ-001", "1", "Taro")
	p.said("book-status", "bad")
	p.book("CH-201", "1", "Taro")
	p.waitFor(`document.querySelector("#book-status").textContent.includes("Find that out")`)
	if focus := eval[string](p, "document.activeElement.id"); focus != "book-status" {
		t.Errorf("the focus is on %q", focus)
	}
	p.do(chromedp.Click(chromedp.CSS("#book-status button")))
	if said := p.said("book-status", "good"); !strings.Contains(said, "Projector") {
		t.Errorf("said %q", said)
	}
	p.listed(1)
	p.do(chromedp.Click(chromedp.CSS("#book button")))
	p.listed(2)
	o.wantBookings("Taro", 2)
}

// press submits the form where no script of the page runs, nor those with which the driver looks where to click.
func (p *tab) press() { p.t.Helper(); eval[any](p, `document.querySelector("#book button").click()`) }

// A form is sent twice although no script runs: by a double click, and after going back.
func TestOfficeWithoutScript(t *testing.T) {
	o, p := newOffice(t, nil, none, none), newTab(t)
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.openPage(o.url + "/?lang=ja")
	submit := func() { p.fill("PJ-001", "1", "花子"); p.press() }
	submit()
	p.waitFor(`document.querySelector("#book-status p")`)
	if said := eval[string](p, `document.querySelector("#book-status").innerText`); said != "予約しました:プロジェクター × 1(番号 1)" {
		t.Errorf("said %q", said)
	}
	if mine := eval[int](p, `document.querySelectorAll("#bookings li").length`); mine != 1 {
		t.Errorf("%d bookings are shown", mine)
	}
	eval[any](p, "history.back()")
	p.waitFor(`location.pathname === "/" && !location.search.includes("booked") && document.readyState === "complete"`)
	submit()
	p.waitFor(`document.querySelector("#book-status p")`)
	o.wantBookings("花子", 1)
	if n := o.sendings(); n != 2 {
		t.Errorf("%d sendings", n)
	}

	p.openPage(o.url + "/?lang=ja")
	submit()
	p.waitFor(`document.querySelector("#book-status p")`)
	o.wantBookings("花子", 2) // a new form is a new booking
}

// A double click on the form sends it twice where no script runs.
func TestOfficeDoubleSubmitWithoutScript(t *testing.T) {
	o, p := newOffice(t, nil, hold), newTab(t)
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	p.openPage(o.url + "/?lang=en")
	p.fill("PJ-001", "1", "Taro")
	at := eval[[]float64](p, `{
		const button = document.querySelector("#book button");
		button.scrollIntoView();
		const { x, y } = button.getBoundingClientRect();
		[x + 5, y + 5];
	}`)
	click := func(n int64) {
		for _, what := range []input.DispatchMouseEventType{"mousePressed", "mouseReleased"} {
			call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: what, X: at[0], Y: at[1], Button: "left", ClickCount: n})
		}
	}
	click(1)
	o.waitHeld()
	click(2)
	o.waitSendings(2)
	o.release()
	p.waitFor(`document.querySelector("#book-status p")`)
	o.wantBookings("Taro", 1)
}

// The drawer shows one click booked twice without a key, and once with one.
func TestOfficeDrawer(t *testing.T) {
	o, p := newOffice(t, nil), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.do(chromedp.Click(chromedp.CSS("summary")))
	for network, without := range map[string]string{"Request": "1", "Answer": "2", "Delay": "2", "Twice": "2", "Kill": "2"} {
		eval[any](p, fmt.Sprintf(`document.querySelector("[value=%s]").click()`, network))
		eval[any](p, `document.querySelector("#try-status").replaceChildren()`)
		p.do(chromedp.Click(chromedp.CSS("#try button")))
		p.waitFor(`document.querySelector("#try-status").textContent.length > 40`)
		got := eval[[]string](p, `[document.querySelector("#without-count").value, document.querySelector("#with-count").value]`)
		if got[0] != without || got[1] != "1" {
			t.Errorf("%s: %q without, %q with a key", network, got[0], got[1])
		}
	}
}

// An order goes on behind a SIGKILL of the server, and the page says how far it has got.
func TestOfficeOrderSurvivesTheServer(t *testing.T) {
	pay := newProvider(t, "--slow", "3s")
	o := newOffice(t, []string{"--pay", pay, "--lease", "1s", "--finish-every", "200ms"})
	p := newTab(t)
	p.openOffice(o.url + "/?lang=en")
	p.do(chromedp.SetValue(chromedp.CSS("#order [name=ordered_by]"), "Taro"), chromedp.Click(chromedp.CSS("#order button")))
	p.waitFor(`document.querySelector("[data-step=reserved][data-done] + [aria-current]")`)
	o.kill()
	p.waitFor(`document.querySelector("#order-status").textContent.includes("does not answer")`)
	o.start()
	p.openOffice(o.url + "/?lang=en")
	if said := p.said("order-status", "good"); !strings.Contains(said, "no. 1 is confirmed: ¥32,800") {
		t.Errorf("said %q", said)
	}
	p.waitFor(`document.querySelectorAll("#steps [data-done]").length === 3`)
	var charges struct{ Charges []any }
	get(t, pay+"/charges", &charges)
	if len(charges.Charges) != 1 {
		t.Errorf("%d charges", len(charges.Charges))
	}
}

func TestOfficeOrderWithoutProvider(t *testing.T) {
	o, p := newOffice(t, []string{"--pay", "http://127.0.0.1:1"}), newTab(t)
	p.openOffice(o.url + "/?lang=ja")
	p.do(chromedp.SetValue(chromedp.CSS("#order [name=ordered_by]"), "花子"), chromedp.Click(chromedp.CSS("#order button")))
	p.waitFor(`document.querySelector("#order-status").textContent.includes("ichido fakepay")`)
	if said := p.said("order-status", "wait"); !strings.Contains(said, "注文は残っており") {
		t.Errorf("said %q", said)
	}
}

func TestOfficeToken(t *testing.T) {
	o, p := newOffice(t, []string{"--token", "shop=0123456789abcdef"}), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	if eval[bool](p, `document.body.textContent.includes("Projector")`) {
		t.Error("items are shown without a token")
	}
	enter := func(token string) {
		p.do(chromedp.SetValue(chromedp.CSS("[name=token]"), token), chromedp.Click(chromedp.CSS("#token button")))
	}
	enter("a wrong one")
	p.waitFor(`document.querySelector("#token-status").textContent.includes("not valid")`)
	enter("0123456789abcdef")
	p.waitFor(`document.querySelector("#book")`)
	p.book("PJ-001", "1", "Taro")
	p.said("book-status", "good")
	p.listed(1)
	p.do(chromedp.Reload())
	p.listed(1) // the token is kept with the tab
	q := p.another()
	q.openOffice(o.url + "/?lang=en")
	if !eval[bool](q, `!!document.querySelector("#token")`) {
		t.Error("another tab has the token")
	}
	p.do(chromedp.Click(chromedp.CSS("#sign-out")))
	p.waitFor(`document.querySelector("#token")`)
}
