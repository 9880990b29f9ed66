package jstest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

func (p *tab) view(width, height int64, mobile bool) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: mobile})
}

func (p *tab) prefers(feature, value string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
}

// listen collects what the browser complains of: errors of scripts, violations of the policy, what could not be loaded.
func (p *tab) listen() (complaints func() []string) {
	p.t.Helper()
	var mu sync.Mutex
	var all []string
	err := chromedp.Listen(p.ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			all = append(all, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		case *runtime.EventExceptionThrown:
			all = append(all, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			all = append(all, fmt.Sprintf("console.%s", e.Type))
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
	call(p, log.Enable, cdp.Empty{})
	call(p, runtime.Enable, cdp.Empty{})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// audit checks contrast, sizes, headings, references, and the names of what can be operated.
func (p *tab) audit(where string) {
	p.t.Helper()
	script, err := os.ReadFile("testdata/audit.js")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, complaint := range eval[[]string](p, string(script)) {
		p.t.Errorf("%s: %s", where, complaint)
	}
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		p.t.Fatal(err)
	}
	text := func(v *accessibility.Value) (s string) {
		if v != nil {
			_ = json.Unmarshal(v.Value, &s)
		}
		return s
	}
	operable := []string{"button", "link", "radio", "textbox", "spinbutton", "combobox", "DisclosureTriangle", "main", "navigation", "group", "region", "form"}
	for _, node := range tree.Nodes {
		role := text(node.Role)
		if node.Ignored || !slices.Contains(operable, role) || role == "form" {
			continue
		}
		if name := text(node.Name); strings.TrimSpace(name) == "" && role != "main" {
			p.t.Errorf("%s: a %s has no name", where, role)
		}
	}
}

func TestOfficeIsAccessible(t *testing.T) {
	o := newOffice(t, nil)
	guarded := newOffice(t, []string{"--token", "shop=0123456789abcdef"})
	p := newTab(t)
	p.openOffice(o.url + "/?lang=en")
	for i, item := range []string{"PJ-001", "CH-201", "WB-090", "WB-090", "KB-010", "DK-110"} {
		p.book(item, fmt.Sprint(8+i), "Taro") // whiteboards more than there are
		p.waitFor(fmt.Sprintf(`document.querySelector("#book-status").textContent.includes("no. %d.")`, i+1))
		p.listed(min(i+1, 5))
	}
	for _, lang := range []string{"en", "ja"} {
		for _, scheme := range []string{"light", "dark"} {
			p.prefers("prefers-color-scheme", scheme)
			for _, width := range []int64{1280, 360, 320} {
				p.view(width, 800, width < 500)
				where := fmt.Sprintf("%s, %s, %d", lang, scheme, width)
				p.openOffice(o.url + "/?reserved_by=Taro&booked=1&lang=" + lang)
				p.audit("office, " + where)
				eval[any](p, `(document.querySelector("#drawer").open = true, document.querySelector("#try button").click())`)
				p.said("try-status", "good")
				p.audit("drawer, " + where)
				for _, path := range []string{"/docs", "/problems/", "/problems/mismatch"} {
					p.openPage(o.url + path + "?lang=" + lang)
					p.audit(path + ", " + where)
				}
				p.openOffice(o.url + "/?lang=" + lang)
				eval[any](p, `{
					document.querySelector("#key").value = "";
					document.querySelector("#book").submit();
				}`)
				p.waitFor(`document.querySelector(".actions") && document.readyState === "complete"`) // with its style
				p.audit("notice, " + where)
				p.openOffice(guarded.url + "/?lang=" + lang)
				p.audit("token, " + where)
			}
		}
	}
}

// Nothing moves by itself, not on a phone either, and the browser has nothing to complain of.
func TestOfficeIsCalm(t *testing.T) {
	o, p := newOffice(t, nil), newTab(t)
	complaints := p.listen()
	const shifts = `new Promise((resolve) => {
		let sum = 0;
		new PerformanceObserver((list) => {
			for (const { value } of list.getEntries()) sum += value;
		}).observe({ type: "layout-shift", buffered: true });
		requestAnimationFrame(() => setTimeout(() => resolve(sum), 100));
	})`
	for _, width := range []int64{1280, 390} {
		p.view(width, 844, width < 500)
		p.openOffice(o.url + "/?lang=en")
		if moved := eval[float64](p, shifts); moved != 0 {
			t.Errorf("width %d: %v on loading", width, moved)
		}
		name := fmt.Sprint("Taro", width)
		for i := range 3 {
			p.book("PJ-001", fmt.Sprint(i+1), name)
			p.listed(i + 1)
		}
		if moved := eval[float64](p, shifts); moved != 0 {
			t.Errorf("width %d: %v on booking", width, moved)
		}
		p.do(chromedp.Reload())
		p.listed(3)
		if moved := eval[float64](p, shifts); moved != 0 {
			t.Errorf("width %d: %v on loading with bookings", width, moved)
		}
		p.openPage(o.url + "/docs?lang=ja")
		p.openPage(o.url + "/problems/?lang=ja")
	}
	if all := complaints(); len(all) > 0 {
		t.Errorf("the browser complains: %q", all)
	}
}

// The keyboard reaches everything, in the order in which it is read, and one sees where it is.
func TestOfficeByKeyboard(t *testing.T) {
	o, p := newOffice(t, nil), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	eval[any](p, `{
		window.visited = [];
		document.addEventListener("focusin", ({ target }) => {
			const shown = target.type === "radio" ? target.closest("label") : target;
			const { outlineStyle, outlineWidth } = getComputedStyle(shown);
			const { top, left, bottom } = shown.getBoundingClientRect();
			visited.push({ target, visible: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && top >= 0 && left >= 0 && bottom <= innerHeight + 1 });
		});
	}`)
	end := "visited.length > 1 && visited.at(-1).target === visited[0].target"
	for range 60 {
		p.do(chromedp.KeyEvent("\t"))
		if eval[bool](p, end) {
			break
		}
	}
	type stop struct {
		Name                string
		Visible, InSequence bool
	}
	stops := eval[[]stop](p, `visited.slice(0, -1).map(({ target, visible }, i) => ({
		name: target.id || target.name || target.getAttribute("href") || target.textContent, visible,
		inSequence: i === 0 || !!(visited[i - 1].target.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING),
	}))`)
	var names []string
	for _, s := range stops {
		names = append(names, s.Name)
		if !s.Visible || !s.InSequence {
			t.Errorf("%+v", s)
		}
	}
	want := "#book /?lang=en language item_code quantity name Book Try it on a bad network item_code quantity ordered_by card Order " +
		"/problems/?lang=en /docs?lang=en /openapi.json /.well-known/idempotency"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the stops are\n%s, want\n%s", got, want)
	}

	// A booking by keyboard alone.
	eval[any](p, `document.querySelector("[name=item_code]").focus()`)
	p.do(chromedp.KeyEvent(" "), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\t"), chromedp.KeyEvent("Taro"), chromedp.KeyEvent("\r"))
	if said := p.said("book-status", "good"); !strings.Contains(said, "Office chair") {
		t.Errorf("said %q", said)
	}
	if focus := eval[string](p, "document.activeElement.id"); focus != "name" {
		t.Errorf("the focus is on %q", focus)
	}
	if live := eval[string](p, `document.querySelector("#book-status").role`); live != "status" {
		t.Errorf("the answer is in a %q", live)
	}
	o.wantBookings("Taro", 1)
}

func TestOfficeChangesLanguageInPlace(t *testing.T) {
	o, p := newOffice(t, nil), newTab(t)
	p.view(390, 500, true)
	p.openOffice(o.url + "/?lang=en")
	p.fill("WB-090", "3", "Taro")
	eval[any](p, `{ scrollTo(0, 120); document.querySelector("#language").click(); }`)
	p.waitFor(`document.documentElement.lang === "ja" && "ready" in document.documentElement.dataset`)
	got := eval[string](p, `JSON.stringify([scrollY, book.item_code.value, book.quantity.value, book.reserved_by.value])`)
	if got != `[120,"WB-090","3","Taro"]` {
		t.Errorf("kept %s", got)
	}
}

func TestOfficeRespectsReducedMotion(t *testing.T) {
	o, p := newOffice(t, nil), newTab(t)
	p.openOffice(o.url + "/?lang=en")
	moves := func() bool {
		return eval[bool](p, `{
			document.querySelector("#steps li").setAttribute("aria-current", "step");
			document.getAnimations().length > 0;
		}`)
	}
	p.prefers("prefers-reduced-motion", "no-preference")
	if !moves() {
		t.Error("nothing moves")
	}
	p.prefers("prefers-reduced-motion", "reduce")
	if moves() {
		t.Error("something moves")
	}
}
