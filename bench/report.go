package main

import (
	"os"
	"runtime"
	"strings"
	"time"
)

// A Report is what --json writes. Fields of what was not run are missing. Names of variants: "plain", the handler in a
// plain transaction; "first", ichido, each request with a new key; "replay", ichido, requests whose keys are stored;
// "usual", idempotency as it is written by hand.
type Report struct {
	Machine     Machine      `json:"machine"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Memory      []Memory     `json:"memory,omitempty"`
	Keys        *Keys        `json:"keys,omitempty"`
	Schemas     *Schemas     `json:"schemas,omitempty"`
	Drivers     *Drivers     `json:"drivers,omitempty"`
}

// A Machine is where and how the run was made.
type Machine struct {
	Time        time.Time `json:"time"` // when it began
	CommandLine []string  `json:"command_line"`
	CPU         string    `json:"cpu,omitempty"`
	Cores       int       `json:"cores"`
	Go          string    `json:"go"`
	OS          string    `json:"os"`
	LoadAverage string    `json:"load_average,omitempty"` // when it began: what else was running
}

// A Comparison is the variants on one engine.
type Comparison struct {
	Engine   string            `json:"engine"` // "postgres" or "sqlite"
	Facts    map[string]string `json:"facts"`  // versions and settings
	Requests []Request         `json:"requests"`
	Loads    []Load            `json:"loads"`
}

// A Request is what one request of a variant costs, counted at one client, apart from the timing.
type Request struct {
	Name       string  `json:"name"`
	RoundTrips float64 `json:"round_trips,omitempty"` // PostgreSQL only
	Statements float64 `json:"statements"`            // BEGIN, COMMIT and ROLLBACK included
	LogBytes   float64 `json:"wal_bytes"`             // growth of the write-ahead log
}

// A Load is what was measured at a number of clients.
type Load struct {
	Clients   int      `json:"clients"`
	Timings   []Timing `json:"timings"`
	Ratios    []Ratio  `json:"ratios"`
	Disturbed int      `json:"disturbed,omitempty"` // samples for which --patience waited in vain for an idle machine
}

// Memory is what ichido costs a request with memstore, without network and database.
type Memory struct {
	Name      string  `json:"name"` // "first", "replay", or "no key" with Config.Optional
	Nanos     Spread  `json:"ns"`
	Allocs    float64 `json:"allocs"`
	Bare      Spread  `json:"bare_ns"` // the handler alone
	BareAlloc float64 `json:"bare_allocs"`
	// Cost is what the aim speaks of: the time above the bare handler's; of a replay, which does not call it, the whole.
	Cost     float64 `json:"cost_ns"`
	Aim      float64 `json:"aim_ns"`
	AimAlloc float64 `json:"aim_allocs,omitempty"` // above the bare handler's; 0 if there is no aim
	Met      bool    `json:"met"`
}

// Keys compares first requests on an empty table and on one with many stored keys.
type Keys struct {
	Stored   int               `json:"stored"`
	Facts    map[string]string `json:"facts"`
	Sizes    map[string]int64  `json:"bytes"` // of the table and of its indexes, when full
	Requests []Request         `json:"requests"`
	Loads    []Load            `json:"loads"`
}

// Schemas compares other primary keys and indexes of the table with those that it has, on the statements of a first
// request, without HTTP.
type Schemas struct {
	Stored int               `json:"stored"`
	Facts  map[string]string `json:"facts"`
	Tables []SchemaSize      `json:"tables"`
	Loads  []Load            `json:"loads"`
}

// SchemaSize is what one schema takes on disk and in the log.
type SchemaSize struct {
	Name     string           `json:"name"`
	Sizes    map[string]int64 `json:"bytes"`
	LogBytes float64          `json:"wal_bytes"` // per first request
}

// Drivers compares drivers for SQLite. Names are "modernc commit", "ncruces read" and so on.
type Drivers struct {
	Versions map[string]string `json:"sqlite_versions"` // of SQLite, by driver
	Loads    []Load            `json:"loads"`
}

func thisMachine() Machine {
	m := Machine{
		Time:        time.Now().UTC().Truncate(time.Second),
		CommandLine: append([]string{"bench"}, os.Args[1:]...),
		Cores:       runtime.NumCPU(),
		Go:          runtime.Version(),
		OS:          runtime.GOOS + "/" + runtime.GOARCH,
	}
	// Only Linux has these files; elsewhere the fields stay empty.
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(load)); len(fields) >= 3 {
		m.LoadAverage = strings.Join(fields[:3], " ")
	}
	return m
}
