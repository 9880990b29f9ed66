package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxPages bounds how much of a list is read for one count.
const maxPages = 1000

// errUncounted is why nothing can be seen of effects that are not described.
var errUncounted = errors.New("the effects cannot be counted: the description has neither effects.get nor effects.answer")

// A mark is what there was at some time.
type mark struct {
	newest  string // the id of the newest element, "" if there was none or the list is read whole
	number  int64
	ordered bool // ids are numbers, and so all that came later are greater
	total   int  // what a count of everything was
}

// reaches reports whether an element was in the list already when the mark was set.
func (m mark) reaches(id string) bool {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && m.ordered {
		return n <= m.number
	}
	return m.newest != "" && m.newest == id
}

// listed reports whether each element says which item it is of, so that others do no harm.
func (e *Effects) listed() bool { return e.Where != "" || strings.Contains(e.Get, "{item}") }

// mark returns the mark of this moment.
func (r *runner) mark(ctx context.Context) (mark, error) {
	e := &r.api.Effects
	switch {
	case e.Get == "":
		return mark{}, nil
	case !e.listed():
		total, err := r.effects(ctx, "", mark{})
		return mark{total: total}, err
	case !e.NewestFirst || e.ID == "" || strings.Contains(e.Get, "{item}"):
		return mark{}, nil
	}
	var m mark
	first, err := r.page(ctx, r.address(e.Get))
	if err != nil {
		return mark{}, err
	}
	for i, element := range first.elements {
		id := word(element, e.ID)
		n, err := strconv.ParseInt(id, 10, 64)
		if i == 0 || err == nil && m.ordered && n > m.number {
			m = mark{newest: id, number: n, ordered: err == nil}
		}
	}
	return m, nil
}

// errNotFiltered is why a list that shows other items, too, is not believed.
var errNotFiltered = errors.New("effects.get shows something before anything of its {item} was made: it does not choose by it; " +
	"say where elements have it with effects.where, or leave {item} out of effects.get")

// chooses returns an error if the list of an item of which nothing was made shows something.
func (r *runner) chooses(ctx context.Context, item string) error {
	e := &r.api.Effects
	if e.Where != "" || !strings.Contains(e.Get, "{item}") {
		return nil
	}
	p, err := r.page(ctx, r.address(fill(e.Get, url.QueryEscape(item), 1)))
	if err == nil && (p.count > 0 || len(p.elements) > 0) { // an item that is not there may have no list yet
		return errNotFiltered
	}
	return nil
}

// effects returns how many of an item were made after m was set. An error means that not all could be seen.
func (r *runner) effects(ctx context.Context, item string, m mark) (int, error) {
	made, err := r.effectsOf(ctx, fill(r.api.Effects.Get, url.QueryEscape(item), 1), m)
	if err != nil {
		return 0, err
	}
	if r.api.Effects.Where != "" {
		return made[item], nil
	}
	return made[""] - m.total, nil
}

// effectsOf returns how many of each item a list shows; without Effects.Where all are of the item "".
func (r *runner) effectsOf(ctx context.Context, path string, m mark) (map[string]int, error) {
	e := &r.api.Effects
	made := map[string]int{}
	counted := map[string]bool{} // ids; pages may overlap when others make something meanwhile
	address := r.address(path)
	for n := 1; n <= maxPages; n++ {
		p, err := r.page(ctx, address)
		if err != nil {
			return nil, err
		}
		if p.number && e.Where != "" {
			return nil, fmt.Errorf("at %q is a number, %d, which does not say what effects.where is of: leave that out", e.At, p.count)
		}
		if p.number {
			return map[string]int{"": p.count}, nil
		}
		end, last := false, ""
		for i, element := range p.elements {
			item, id := "", fmt.Sprintf("%d-%d", n, i)
			if e.Where != "" {
				item = word(element, e.Where)
			}
			if e.ID != "" {
				id = word(element, e.ID)
				last = id
			}
			switch {
			case m.reaches(id):
				end = true // but look at the whole page: its order need not be that of the ids
			case !counted[id]:
				counted[id] = true
				made[item]++
			}
		}
		next, err := r.following(address, p, last, n)
		if err != nil {
			return nil, err
		}
		if end || next == "" {
			return made, nil
		}
		address = next
	}
	return nil, fmt.Errorf("the list does not end within %d pages", maxPages)
}

// following returns the address of the page after p, the n-th, or "".
func (r *runner) following(address string, p *page, last string, n int) (string, error) {
	e := &r.api.Effects
	switch {
	case e.Next != "":
		if p.next == "" {
			return "", nil
		}
		return follow(address, p.next)
	case e.After != "" || e.Page != "":
		if len(p.elements) == 0 {
			return "", nil
		}
		if e.After != "" {
			return withParameter(address, e.After, last)
		}
		return withParameter(address, e.Page, strconv.Itoa(n+1))
	case p.next != "":
		return follow(address, p.next)
	}
	return "", nil
}

func withParameter(address, name, value string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// A page is one page of a list, or a number.
type page struct {
	elements []json.RawMessage
	next     string
	number   bool
	count    int
}

// page reads one page.
func (r *runner) page(ctx context.Context, address string) (*page, error) {
	a := r.get(ctx, address)
	if a.err != nil {
		return nil, fmt.Errorf("the list cannot be read: %w", a.err)
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("the list cannot be read: GET is answered %d%s", a.status, a.detail())
	}
	p, err := r.api.Effects.parse(a)
	if err != nil {
		return nil, fmt.Errorf("the list cannot be read: %w", err)
	}
	return p, nil
}

var nextLink = regexp.MustCompile(`<([^>]*)>[^,]*;\s*rel="?next"?`)

func (e *Effects) parse(a answer) (*page, error) {
	if !json.Valid(a.body) {
		return nil, fmt.Errorf("it is not JSON: %s", excerpt(a.body, 0))
	}
	there, ok := at(a.body, e.At)
	if !ok {
		return nil, fmt.Errorf("there is nothing at %q in it: %s", e.At, excerpt(a.body, 0))
	}
	p := page{}
	if n, err := strconv.Atoi(string(there)); err == nil {
		return &page{number: true, count: n}, nil
	}
	if err := json.Unmarshal(there, &p.elements); err != nil { // null is an empty list to some
		return nil, fmt.Errorf("at %q is neither an array nor a number: %s", e.At, excerpt(there, 0))
	}
	for _, element := range p.elements {
		if e.ID != "" && word(element, e.ID) == "" {
			return nil, fmt.Errorf("an element has no %q: %s", e.ID, excerpt(element, 0))
		}
	}
	named := func(element json.RawMessage) bool { return word(element, e.Where) != "" }
	if e.Where != "" && len(p.elements) > 0 && !slices.ContainsFunc(p.elements, named) { // nothing would ever be counted
		return nil, fmt.Errorf("no element has the %q of effects.where: %s", e.Where, excerpt(p.elements[0], 0))
	}
	if e.Next != "" {
		p.next = word(a.body, e.Next)
	} else if link := nextLink.FindStringSubmatch(strings.Join(a.header.Values("Link"), ", ")); link != nil {
		p.next = link[1]
	}
	return &p, nil
}

// follow returns the address of the next page. It must be on the same server, since what is read there is believed.
func follow(address, next string) (string, error) {
	from, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	to, err := from.Parse(next)
	if err != nil {
		return "", fmt.Errorf("the list's next page has no valid address: %q", next)
	}
	if to.Scheme != from.Scheme || to.Host != from.Host {
		return "", fmt.Errorf("the list's next page is on another server: %q", next)
	}
	if to.String() == address {
		return "", fmt.Errorf("the list's next page is the same page again: %q", next)
	}
	return to.String(), nil
}
