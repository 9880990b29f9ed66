package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestListIsPagedNewestFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		if a := s.do("GET", "/reservations", ""); a.body != `{"reservations":[]}`+"\n" {
			t.Errorf("the empty list is %s", a.body)
		}
		for i := range 5 {
			if a := s.reserve(fmt.Sprint(i), projector); a.status != 201 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		for limit, pages := range map[string]int{"2": 3, "5": 1, "1": 5, "200": 1} {
			ids, n := readAll(t, s, "/reservations?limit="+limit)
			if !slices.Equal(ids, []int64{5, 4, 3, 2, 1}) || n != pages {
				t.Errorf("limit %s: %v on %d pages, want 5 to 1 on %d", limit, ids, n, pages)
			}
		}
		if ids, n := readAll(t, s, "/reservations"); len(ids) != 5 || n != 1 {
			t.Errorf("without limit: %v on %d pages", ids, n)
		}
	})
}

// readAll follows "next" from page to page.
func readAll(t *testing.T, s *testServer, path string) (ids []int64, pages int) {
	t.Helper()
	for path != "" {
		a := s.do("GET", path, "")
		var p page
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 200 {
			t.Fatalf("GET %s: %d %s: %v", path, a.status, a.body, err)
		}
		for _, e := range p.Reservations {
			ids = append(ids, e.ID)
		}
		path = p.Next
		pages++
	}
	return ids, pages
}

func TestListCanBeOfOneName(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		for i, name := range []string{"taro", "花子", "taro", "Taro", "taro"} {
			s.reserve(fmt.Sprint(i), strings.Replace(projector, "taro", name, 1))
		}
		for query, want := range map[string]string{"taro&limit=2": "[5 3 1]", "%E8%8A%B1%E5%AD%90": "[2]", "nobody": "[]", "": "[5 4 3 2 1]", "' OR 1=1 --": "[]"} {
			path := "/reservations?reserved_by=" + strings.ReplaceAll(query, " ", "%20")
			if ids, _ := readAll(t, s, path); fmt.Sprint(ids) != want {
				t.Errorf("%s: %v, want %s", query, ids, want)
			}
		}
	})
}

// The page is read more often than anything else, so that it has to go by indexes however many reservations there are.
func TestPageIsReadByIndexes(t *testing.T) {
	db := open(t, t.TempDir()+"/office.db").office.(sqliteOffice).db
	all, allArgs := listQuery("?", "", 9, 9)
	one, oneArgs := listQuery("?", "taro", 9, 9)
	for _, c := range []struct {
		query string
		args  []any
		want  string
	}{
		{sqliteItems, nil, "SEARCH reservations USING COVERING INDEX reservations_by_item (item_code=?)"},
		{all, allArgs, "SEARCH reservations USING INTEGER PRIMARY KEY (rowid<?)"},
		{one, oneArgs, "SEARCH reservations USING INDEX reservations_by_name (reserved_by=? AND id<?)"},
	} {
		plan, err := sqliteRows(t.Context(), db, func(row *sql.Rows) (step string, err error) {
			var ignored int
			return step, row.Scan(&ignored, &ignored, &ignored, &step)
		}, "EXPLAIN QUERY PLAN "+c.query, c.args...)
		if err != nil || !slices.Contains(plan, c.want) || slices.ContainsFunc(plan, func(step string) bool { return strings.Contains(step, "TEMP B-TREE") }) {
			t.Errorf("%s: %q (%v), want %q", c.query, plan, err, c.want)
		}
	}
}

func TestItemsTellWhatIsReserved(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		for i, body := range []string{projector, strings.Replace(projector, ":1", ":2147483647", 1), strings.Replace(projector, ":1", ":2147483647", 1), strings.Replace(projector, "PJ-001", "NONE", 1)} {
			s.reserve(fmt.Sprint(i), body)
		}
		var all struct{ Items []item }
		s.read(&all, "/items")
		for _, i := range all.Items {
			if want := map[string]int64{"PJ-001": 1 + 2*2147483647}[i.Code]; i.Reserved != want || i.Code == "PJ-001" && i.Stock != 30 {
				t.Errorf("%+v, want %d reserved", i, want)
			}
		}
		if a := s.do("GET", "/?lang=en", ""); !strings.Contains(a.body, "none left, 4,294,967,265 too many booked") {
			t.Error("the page does not tell")
		}
	})
}

func TestReservationCanBeReadBack(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		before := time.Now().Add(-time.Minute)
		created := s.reserve("k", projector)
		a := s.do("GET", created.header.Get("Location"), "")
		var got map[string]any
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 {
			t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		at, err := time.Parse(time.RFC3339, got["created_at"].(string))
		if err != nil || at.Before(before) || at.After(time.Now().Add(time.Minute)) || at.Location() != time.UTC {
			t.Errorf("created_at %v: %v", got["created_at"], err)
		}
		delete(got, "created_at")
		want := map[string]any{"id": 1.0, "item_code": "PJ-001", "quantity": 1.0, "reserved_by": "taro"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		head := s.do("HEAD", "/reservations/1", "")
		if head.status != 200 || head.body != "" || head.header.Get("Content-Length") != a.header.Get("Content-Length") {
			t.Errorf("HEAD: %d %q %v", head.status, head.body, head.header)
		}
	})
}

func TestWrongPathsMethodsAndParameters(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		s.reserve("k", projector)
		for _, c := range []struct {
			method, path string
			status       int
			code, allow  string
		}{
			{"GET", "/reservations/2", 404, "no-reservation", ""},
			{"GET", "/reservations/0", 404, "no-reservation", ""},
			{"GET", "/reservations/-1", 404, "no-reservation", ""},
			{"GET", "/reservations/01", 404, "no-reservation", ""},
			{"GET", "/reservations/x", 404, "no-reservation", ""},
			{"GET", "/reservations/99999999999999999999", 404, "no-reservation", ""},
			{"GET", "/orders/1", 404, "no-order", ""},
			{"GET", "/orders/x", 404, "no-order", ""},
			{"GET", "/items/PJ-001", 404, "no-resource", ""},
			{"PUT", "/orders", 405, "method-not-allowed", "GET, HEAD, POST"},
			{"DELETE", "/orders/1", 405, "method-not-allowed", "GET, HEAD"},
			{"POST", "/items", 405, "method-not-allowed", "GET, HEAD"},
			{"GET", "/orders?limit=0", 400, "parameter-invalid", ""},
			{"GET", "/orders?cursor=x", 400, "parameter-invalid", ""},
			{"GET", "/reservations/1/x", 404, "no-resource", ""},
			{"GET", "/reservations/", 404, "no-resource", ""},
			{"GET", "/nowhere", 404, "no-resource", ""},
			{"POST", "/nowhere", 404, "no-resource", ""},
			{"PUT", "/reservations", 405, "method-not-allowed", "GET, HEAD, POST"},
			{"DELETE", "/reservations/1", 405, "method-not-allowed", "GET, HEAD"},
			{"POST", "/healthz", 405, "method-not-allowed", "GET, HEAD"},
			{"GET", "/reservations?limit=0", 400, "parameter-invalid", ""},
			{"GET", "/reservations?limit=201", 400, "parameter-invalid", ""},
			{"GET", "/reservations?limit=", 400, "parameter-invalid", ""},
			{"GET", "/reservations?limit=ten", 400, "parameter-invalid", ""},
			{"GET", "/reservations?cursor=", 400, "parameter-invalid", ""},
			{"GET", "/reservations?cursor=0", 400, "parameter-invalid", ""},
			{"GET", "/reservations?cursor=1'--", 400, "parameter-invalid", ""},
			{"GET", "/reservations?cursor=99999999999999999999", 400, "parameter-invalid", ""},
			{"GET", "/reservations?reserved_by=%00", 400, "parameter-invalid", ""},
			{"GET", "/reservations?reserved_by=%ff", 400, "parameter-invalid", ""},
		} {
			a := s.do(c.method, c.path, "")
			wantProblem(t, a, c.status, c.code)
			if a.header.Get("Allow") != c.allow {
				t.Errorf("%s %s: Allow %q", c.method, c.path, a.header.Get("Allow"))
			}
		}
		if a := s.do("GET", "/healthz", ""); a.status != 200 || a.body != `{"status":"ok"}`+"\n" {
			t.Errorf("healthz: %d %s", a.status, a.body)
		}
	})
}
