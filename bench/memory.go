package main

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/memstore"
)

// A memoryCase is a kind of request whose cost in memory is measured. benchmark runs it on the bare handler, or on the
// same handler under ichido.
type memoryCase struct {
	name     string
	key      func(n int) string // of the n-th request; nil for none
	aim      float64            // ns
	aimAlloc float64
	whole    bool // the aim is of the whole time, not of the part above the bare handler
}

var memoryCases = []memoryCase{
	{name: "first", key: numberedKey, aim: 4000, aimAlloc: 25},
	{name: "replay", key: func(int) string { return numberedKey(0) }, aim: 2000, whole: true},
	{name: "no key", aim: 100},
}

// numberedKey returns a different key for each n, of the length of an UUID.
func numberedKey(n int) string { return strconv.Itoa(1e9+n) + "-8222-4333-8444-5555555555" }

func bareHandler() http.Handler {
	answer := []byte(`{"id":1,"item_code":"PJ-001","quantity":1,"reserved_by":"taro"}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answer)
	})
}

func (c memoryCase) benchmark(b *testing.B, bare bool) {
	handler := bareHandler()
	if !bare {
		manager, err := ichido.New(memstore.New(nil), ichido.Shared, &ichido.Config{Optional: true})
		if err != nil {
			b.Fatal(err)
		}
		handler = manager.Wrap(handler)
	}
	r, err := http.NewRequest(http.MethodPost, "/reservations", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(requestBody))
	body := &replayableBody{text: []byte(requestBody)}
	w := &discardWriter{header: make(http.Header)}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if c.key != nil {
			r.Header["Idempotency-Key"] = []string{c.key(n)}
		}
		body.Reset(body.text)
		r.Body = body
		clear(w.header)
		handler.ServeHTTP(w, r)
		if w.status != http.StatusCreated {
			b.Fatalf("answered %d", w.status)
		}
	}
}

type replayableBody struct {
	bytes.Reader
	text []byte
}

func (*replayableBody) Close() error { return nil }

// A discardWriter is a http.ResponseWriter that costs nothing.
type discardWriter struct {
	header http.Header
	status int
}

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) WriteHeader(status int)      { w.status = status }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }

func measureMemory(o *options) []Memory {
	benchmarkFor(o.duration)
	var out []Memory
	for _, c := range memoryCases {
		var bare, ours []testing.BenchmarkResult
		o.talk.begin(o.rounds, "memory: %s", c.name)
		for range o.rounds {
			bare = append(bare, testing.Benchmark(func(b *testing.B) { c.benchmark(b, true) }))
			ours = append(ours, testing.Benchmark(func(b *testing.B) { c.benchmark(b, false) }))
			o.talk.step()
		}
		out = append(out, c.result(bare, ours))
	}
	return out
}

// benchmarkFor says for how long testing.Benchmark measures.
func benchmarkFor(d time.Duration) {
	testing.Init() // for the flag; it is not one of ours, which have a set of their own
	_ = flag.Set("test.benchtime", min(d, testingDefault).String())
}

const testingDefault = 1e9 // ns; longer changes nothing

func nanos(r testing.BenchmarkResult) float64 { return float64(r.T.Nanoseconds()) / float64(r.N) }

func (c memoryCase) result(bare, ours []testing.BenchmarkResult) Memory {
	allocs := func(r testing.BenchmarkResult) float64 { return float64(r.AllocsPerOp()) }
	m := Memory{
		Name: c.name, Aim: c.aim, AimAlloc: c.aimAlloc,
		Nanos: spreadOf(ours, nanos), Allocs: spreadOf(ours, allocs).Median,
		Bare: spreadOf(bare, nanos), BareAlloc: spreadOf(bare, allocs).Median,
	}
	m.Cost = m.Nanos.Median
	if !c.whole {
		m.Cost -= m.Bare.Median
	}
	m.Met = (m.Aim == 0 || m.Cost <= m.Aim) && (m.AimAlloc == 0 || m.Allocs-m.BareAlloc <= m.AimAlloc)
	return m
}
