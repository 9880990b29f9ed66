package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// maxPages bounds how much of the list is read for one count. Only what is newer than the scenario's beginning is read,
// so this is far more than the scenario itself and other traffic during it can fill.
const maxPages = 1000

// A listed is one reservation in the list.
type listed struct {
	ID       json.RawMessage `json:"id"`
	ItemCode string          `json:"item_code"`
}

// number returns the id if it is an integer.
func (l listed) number() (int64, bool) {
	n, err := strconv.ParseInt(string(l.ID), 10, 64)
	return n, err == nil
}

// A page is one page of the list.
type page struct {
	Reservations []listed
	Next         string
}

// A mark is a place in the list: the newest reservation that was there at some time.
type mark struct {
	id      string // "" if the list was empty
	number  int64
	ordered bool // the id is a number, and so all that came later are greater
}

// reaches reports whether l was in the list already when the mark was set.
func (m mark) reaches(l listed) bool {
	if n, ok := l.number(); ok && m.ordered {
		return n <= m.number
	}
	return m.id != "" && m.id == string(l.ID)
}

// newest returns the mark of this moment.
func (r *runner) newest(ctx context.Context) (mark, error) {
	first, err := r.page(ctx, r.url)
	if err != nil {
		return mark{}, err
	}
	var m mark
	for i, l := range first.Reservations {
		n, ok := l.number()
		if i == 0 || ok && m.ordered && n > m.number {
			m = mark{id: string(l.ID), number: n, ordered: ok}
		}
	}
	return m, nil
}

// since returns how many reservations were made of each item after m was set. An error means that not all could be
// seen.
func (r *runner) since(ctx context.Context, m mark) (map[string]int, error) {
	made := map[string]int{}
	counted := map[string]bool{} // ids; pages may overlap when others reserve meanwhile
	address := r.url
	for range maxPages {
		p, err := r.page(ctx, address)
		if err != nil {
			return nil, err
		}
		end := p.Next == ""
		for _, l := range p.Reservations {
			switch {
			case m.reaches(l):
				end = true // but look at the whole page: its order need not be that of the ids
			case !counted[string(l.ID)]:
				counted[string(l.ID)] = true
				made[l.ItemCode]++
			}
		}
		if end {
			return made, nil
		}
		if address, err = follow(address, p.Next); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the list does not end within %d pages", maxPages)
}

// page reads one page of the list.
func (r *runner) page(ctx context.Context, address string) (*page, error) {
	a := r.get(ctx, address)
	if a.err != nil {
		return nil, fmt.Errorf("the list cannot be read: %w", a.err)
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("the list cannot be read: GET is answered %d%s", a.status, a.detail())
	}
	p, err := parsePage(a.body)
	if err != nil {
		return nil, fmt.Errorf("the list cannot be read: %w", err)
	}
	return p, nil
}

func parsePage(body []byte) (*page, error) {
	var members struct {
		Reservations json.RawMessage `json:"reservations"` // null is an empty list to some, but none at all is no list
		Next         string          `json:"next"`
	}
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, fmt.Errorf("it is not a JSON object with the members that it should have: %s", excerpt(body, 0))
	}
	if members.Reservations == nil {
		return nil, errors.New(`it has no member "reservations"`)
	}
	p := page{Next: members.Next}
	if err := json.Unmarshal(members.Reservations, &p.Reservations); err != nil {
		return nil, fmt.Errorf(`its "reservations" are not what they should be: %s`, excerpt(members.Reservations, 0))
	}
	for _, l := range p.Reservations {
		if len(l.ID) == 0 {
			return nil, errors.New(`a reservation has no "id"`)
		}
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
