package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEveryAnswerHasARequestID(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		s := serveAPI(t, open(t, location), serveOptions{}, nil)
		one, two := s.reserve("k", projector), s.reserve("k", projector)
		if a, b := one.header.Get("X-Request-Id"), two.header.Get("X-Request-Id"); a == "" || b == "" || a == b {
			t.Errorf("the first answer has the id %q, its replay %q", a, b)
		}
		for sent, kept := range map[string]bool{
			"abc-123_4.5:6": true, "": false, "a b": false, "a\tb": false, `a"b`: false, "é": false, strings.Repeat("x", 101): false,
		} {
			a := s.do("GET", "/nowhere", "", "X-Request-Id: "+sent)
			if got := a.header.Get("X-Request-Id"); got == "" || (got == sent) != kept {
				t.Errorf("sent the id %q, got %q", sent, got)
			}
		}
	})
}

func TestPanicOutsideOfAnAttemptIsAnswered(t *testing.T) {
	lines := new(logs)
	handler := func(h http.HandlerFunc) http.Handler { return traced(h, newLogger(lines), refuser{language: "en"}) }

	w := httptest.NewRecorder()
	handler(func(http.ResponseWriter, *http.Request) { panic("oh no") }).ServeHTTP(w, httptest.NewRequest("GET", "/x", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), "internal-fault") || strings.Contains(w.Body.String(), "oh no") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if log := lines.String(); strings.Count(log, "level=ERROR") != 1 || !strings.Contains(log, "oh no") || !strings.Contains(log, "path=/x") {
		t.Errorf("log: %s", log)
	}

	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("an answer that broke off half-way ended with %v", p)
		}
	}()
	handler(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		panic("too late")
	}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil))
}

func TestKeysAndBodiesAreNotLogged(t *testing.T) {
	onBoth(t, func(t *testing.T, location string) {
		db := open(t, location)
		db.office = &brokenOffice{office: db.office, fail: func() error { panic("oh no") }}
		s := serveAPI(t, db, serveOptions{}, nil)
		s.reserve("secret-key", `{"item_code":"secret-item","quantity":1,"reserved_by":"secret-name"}`)
		if log := s.logs.String(); !strings.Contains(log, "oh no") || strings.Contains(log, "secret-") {
			t.Errorf("log: %s", log)
		}
	})
}
