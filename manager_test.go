package ichido_test

import (
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

func TestNewNamesTheFieldAndTheRule(t *testing.T) {
	for name, c := range map[string]struct {
		config ichido.Config
		want   []string
	}{
		"WaitLimit":      {ichido.Config{WaitLimit: -1}, []string{"Config.WaitLimit is -1ns", "must be positive", "default 30s"}},
		"Retention":      {ichido.Config{Retention: -time.Hour}, []string{"Config.Retention is -1h0m0s", "must be positive", "default 24h0m0s"}},
		"AttemptTimeout": {ichido.Config{AttemptTimeout: -1}, []string{"Config.AttemptTimeout", "must be positive", "default 30s"}},
		"StoreTimeout":   {ichido.Config{StoreTimeout: -1}, []string{"Config.StoreTimeout", "must be positive", "default 5s"}},
		"InProgress":     {ichido.Config{InProgress: 7}, []string{"Config.InProgress is 7", "must be Reject or Wait"}},
		"MaxRequestBody": {ichido.Config{MaxRequestBody: -1}, []string{"Config.MaxRequestBody", "must be positive"}},
		"Stored.MaxBody": {ichido.Config{Stored: ichido.Stored{MaxBody: -1}}, []string{"Config.Stored.MaxBody", "must be positive"}},
		"StoredTooLarge": {ichido.Config{Stored: ichido.Stored{TooLarge: 7}}, []string{"Config.Stored.TooLarge is 7"}},
		"ConflictStatus": {ichido.Config{ConflictStatus: 200}, []string{"Config.ConflictStatus is 200", "4xx"}},
		"MismatchStatus": {ichido.Config{MismatchStatus: 500}, []string{"Config.MismatchStatus is 500", "4xx"}},
		"KeyFormat":      {ichido.Config{KeyFormat: ichido.KeyFormat{MaxLength: 300}}, []string{"Config.KeyFormat", "255"}},
		"Pattern":        {ichido.Config{KeyFormat: ichido.KeyFormat{Pattern: "("}}, []string{"Config.KeyFormat.Pattern"}},
		"Secrets":        {ichido.Config{Stored: ichido.Stored{Secrets: []ichido.Secret{{ID: "a", Key: []byte("short")}}}}, []string{"Config.Stored.Secrets", "must have 32"}},
		"Ignore":         {ichido.Config{Fingerprint: ichido.Fingerprint{Ignore: []string{"sent_at"}}}, []string{"sent_at", "JSON Pointer"}},
		"Fingerprint":    {ichido.Config{Fingerprint: ichido.Fingerprint{Raw: true, Ignore: []string{"/a"}}}, []string{"only one of"}},
		"Language":       {ichido.Config{Language: "fr"}, []string{`Config.Language is "fr"`, `must be "en" or "ja"`}},
	} {
		m, err := ichido.New(memstore.New(nil), ichido.Shared, &c.config)
		if err == nil || m != nil {
			t.Errorf("%s: New = %v, %v; want an error", name, m, err)
			continue
		}
		for _, want := range append(c.want, "ichido: New: ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
	}
}

func TestNewNeedsAStoreAndAScope(t *testing.T) {
	if _, err := ichido.New(nil, ichido.Shared, nil); err == nil || !strings.Contains(err.Error(), "store is nil; make one") {
		t.Errorf("without a store: %v", err)
	}
	if _, err := ichido.New(memstore.New(nil), nil, nil); err == nil || !strings.Contains(err.Error(), "scope is nil; give a function") {
		t.Errorf("without a scope: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	want := ichido.Config{
		InProgress: ichido.Reject, WaitLimit: 30 * time.Second, Retention: 24 * time.Hour, AttemptTimeout: 30 * time.Second,
		StoreTimeout: 5 * time.Second, MaxRequestBody: 1 << 20, Stored: ichido.Stored{MaxBody: 1 << 20, CompressFrom: 4 << 10}, Language: "en",
		Methods: []string{"POST", "PATCH"}, Header: "Idempotency-Key", KeyFormat: ichido.KeyFormat{MinLength: 1, MaxLength: 255},
		ConflictStatus: 409, MismatchStatus: 422,
		ProblemBase: "https://github.com/ichido-dev/ichido/blob/main/docs/problems.md#",
	}
	for name, config := range map[string]*ichido.Config{"nil": nil, "zero": {}} {
		got := newManager(t, memstore.New(nil), config).Settings()
		if got.Logger == nil || got.Logger.Enabled(t.Context(), slog.LevelError) {
			t.Errorf("%s: the default logger is %v, want one that discards", name, got.Logger)
		}
		if !got.Keep(399) || got.Keep(400) {
			t.Errorf("%s: by default answers below 400 are kept", name)
		}
		got.Logger, got.Keep = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the defaults are %+v, want %+v", name, got, want)
		}
	}
}

func TestNewLeavesTheConfigAlone(t *testing.T) {
	config := ichido.Config{ProblemBase: "/problems/", Optional: true}
	m := newManager(t, memstore.New(nil), &config)
	if want := (ichido.Config{ProblemBase: "/problems/", Optional: true}); !reflect.DeepEqual(config, want) {
		t.Errorf("New wrote into the caller's Config: %+v", config)
	}
	config.Optional = false // what the caller does afterwards does not count
	wantStatus(t, send(m.Wrap(created("x")), post("", "")), http.StatusCreated)
}
