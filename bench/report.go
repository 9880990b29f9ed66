package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// A Report is what --json writes. Fields of what was not run are missing. Names of variants: "plain", the handler in a
// plain transaction; "first", ichido, each request with a new key; "replay", ichido, requests whose keys are stored;
// "usual", idempotency as it is written by hand; "floor", the plain transaction and one more row. In lease mode: "writes", a
// handler that makes two plain writes; "first" and "replay", ichido, with a handler that makes none; "0 steps" is "first", and
// the others with steps say of how many.
type Report struct {
	Machine     Machine      `json:"machine"`
	Runs        []Done       `json:"runs"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Memory      []Memory     `json:"memory,omitempty"`
	Duplicates  []Comparison `json:"duplicates,omitempty"`
	Rivals      *Rivals      `json:"rivals,omitempty"`
	Lease       *Lease       `json:"lease,omitempty"`
	Steps       []Comparison `json:"steps,omitempty"`
	Keys        *Keys        `json:"keys,omitempty"`
	Schemas     *Schemas     `json:"schemas,omitempty"`
	Purge       *Purge       `json:"purge,omitempty"`
	Retention   []Retention  `json:"retention,omitempty"`
	Drivers     *Drivers     `json:"drivers,omitempty"`
	Client      *Client      `json:"client,omitempty"`
	Simulation  *Simulation  `json:"simulation,omitempty"`
	Storms      []Storm      `json:"storms,omitempty"`
}

// A Machine is where a report was made, and by what.
type Machine struct {
	CPU     string            `json:"cpu,omitempty"`
	Cores   int               `json:"cores"`
	Go      string            `json:"go"`
	OS      string            `json:"os"`
	Modules map[string]string `json:"modules,omitempty"` // versions of what is compared, by path
}

// A Done is a run that was made for a report.
type Done struct {
	Name        string    `json:"name"`
	CommandLine string    `json:"command_line"` // makes this run alone
	Time        time.Time `json:"time"`         // when it began
	Seconds     float64   `json:"seconds"`
	LoadAverage string    `json:"load_average,omitempty"` // when it began: what else was running
}

// A Comparison is the variants on one engine.
type Comparison struct {
	Engine   string            `json:"engine"` // "postgres" or "sqlite"
	Facts    map[string]string `json:"facts"`  // versions and settings
	Requests []Request         `json:"requests"`
	Parts    []Request         `json:"parts,omitempty"` // of requests, by what they differ: a step, say
	Loads    []Load            `json:"loads"`
}

// A Request is what one request of a variant costs, counted at one client, apart from the timing.
type Request struct {
	Name       string  `json:"name"`
	RoundTrips float64 `json:"round_trips,omitempty"` // PostgreSQL only
	Statements float64 `json:"statements"`            // BEGIN, COMMIT and ROLLBACK included
	LogBytes   float64 `json:"wal_bytes"`             // growth of the write-ahead log

	// Aim is what RoundTrips should be, exactly; 0 if there is no aim.
	Aim float64 `json:"round_trips_aim,omitempty"`
	Met bool    `json:"met"`
}

// A Load is what was measured at a number of clients.
type Load struct {
	Clients   int      `json:"clients"`
	Timings   []Timing `json:"timings"`
	Ratios    []Ratio  `json:"ratios"`
	Disturbed int      `json:"disturbed,omitempty"` // samples for which --patience waited in vain for an idle machine
}

// Memory is what something costs a request without network and database. Of ichido with memstore the names are "first",
// "replay", and "no key" with Config.Optional.
type Memory struct {
	Name      string  `json:"name"`
	Nanos     Spread  `json:"ns"`
	Allocs    float64 `json:"allocs"`
	Bare      Spread  `json:"bare_ns"` // what is below it alone: the handler, or what sends
	BareAlloc float64 `json:"bare_allocs"`
	// Cost is what the aim speaks of: the time above the bare one; of a replay, which does not call the handler, the whole.
	Cost     float64 `json:"cost_ns"`
	Aim      float64 `json:"aim_ns,omitempty"`     // 0 if there is no aim
	AimAlloc float64 `json:"aim_allocs,omitempty"` // above the bare one; 0 if there is no aim
	Met      bool    `json:"met"`
}

// Keys compares first requests on an empty table with those on tables with many stored keys. The series are "empty" and
// "10000 keys", say.
type Keys struct {
	Facts    map[string]string `json:"facts"`
	Tables   []KeyTable        `json:"tables"`
	Requests []Request         `json:"requests"`
	Loads    []Load            `json:"loads"`
}

// A KeyTable is a table with many stored keys.
type KeyTable struct {
	Stored int              `json:"stored"`
	Sizes  map[string]int64 `json:"bytes"` // of the table and of its indexes
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

// Lease is lease mode: its requests on each engine, and its heartbeats on PostgreSQL.
type Lease struct {
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Heartbeats  *Heartbeats  `json:"heartbeats,omitempty"`
}

// Heartbeats are the renewals of the leases of many attempts of one process that are in flight. The spreads are over the
// renewals.
type Heartbeats struct {
	Facts      map[string]string `json:"facts"`
	Attempts   int               `json:"attempts"`
	Statements Spread            `json:"statements"` // for one renewal of all leases
	Aim        float64           `json:"statements_aim"`
	Met        bool              `json:"met"`             // each renewal meets it
	Millis     Spread            `json:"renewal_ms"`      // how long one renewal of all leases takes
	LogBytes   Spread            `json:"wal_bytes"`       // for each lease of one renewal
	HotUpdates float64           `json:"hot_update_part"` // of the updates, 0 to 1
}

// Purge compares first requests while expired keys are purged, "purging", with first requests while nothing is purged,
// "quiet", on one table that has been in use for long. Expired are the oldest keys.
type Purge struct {
	Stored  int               `json:"stored"`
	Expired int               `json:"expired"` // of those, when it began
	Facts   map[string]string `json:"facts"`
	Sizes   map[string]int64  `json:"bytes"` // of the table and of its indexes, when it began
	Loads   []Load            `json:"loads"`
	Speeds  []PurgeSpeed      `json:"speeds"`
	Idle    Spread            `json:"idle_ms"` // how long a purge takes that finds next to nothing
}

// PurgeSpeed is how fast keys were purged beside a number of clients.
type PurgeSpeed struct {
	Clients   int     `json:"clients"`
	Purged    int     `json:"purged"`
	PerSecond Spread  `json:"per_second"` // keys, over the rounds
	Batch     Spread  `json:"batch_ms"`   // how long one batch takes, over all of them
	BatchP99  float64 `json:"batch_p99_ms"`
}

// Retention is the size of a store over periods of retention: in each, in parts, keys are stored, those of the period
// before expire and are purged, and the database tidies up as it does by itself.
type Retention struct {
	Engine  string            `json:"engine"`
	Keys    int               `json:"keys"` // stored in each period
	Facts   map[string]string `json:"facts"`
	Periods []Period          `json:"periods"`
	Growth  Ratio             `json:"growth"` // of the size at the end of the last period, against that of the third
}

// A Period is one of retention, at its end.
type Period struct {
	Sizes   map[string]int64 `json:"bytes"` // PostgreSQL: table, indexes, toast; SQLite: file
	Size    int64            `json:"total_bytes"`
	Purged  int              `json:"purged"`
	Seconds float64          `json:"purge_seconds"`
}

func thisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, Modules: modules()}
	// Only Linux has this file; elsewhere the field stays empty.
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}

// modules are the versions of those that decide what is measured.
func modules() map[string]string {
	out := make(map[string]string)
	info, _ := debug.ReadBuildInfo()
	for _, path := range compared {
		for _, dep := range info.Deps {
			if dep.Path == path {
				out[path] = dep.Version
			}
		}
	}
	return out
}

var compared = []string{
	"github.com/jackc/pgx/v5", "modernc.org/sqlite", "github.com/ncruces/go-sqlite3",
	"github.com/hashicorp/go-retryablehttp", "github.com/failsafe-go/failsafe-go", "github.com/gofiber/fiber/v3",
}

// loadAverage is what Linux says of how busy the machine is; elsewhere it is empty.
func loadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(load))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
