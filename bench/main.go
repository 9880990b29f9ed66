// Command bench measures ichido against what it replaces, side by side in one run.
//
//	go run ./bench                    the comparisons on PostgreSQL and SQLite, and the costs in memory
//	go run ./bench --quick            the same, too short to mean anything: does it work?
//	go run ./bench --keys 10000000    a table full of keys against an empty one, on PostgreSQL
//	go run ./bench --keys 10000000 --schema-variants
//	go run ./bench --drivers          the drivers for SQLite
//	go run ./bench --lease            lease mode: two plain writes, first requests, replays, and heartbeats
//	go run ./bench --steps            lease mode: operations of 0, 1, 5 and 20 steps, and one that resumes
//	go run ./bench --purge            first requests while ten million keys are purged of a tenth, on PostgreSQL
//	go run ./bench --retention        bytes on disk over ten periods of retention
//
// The table goes to stdout, what is going on to stderr if that is a terminal, and a [Report] to the file of --json.
// README.md says what is compared and how to read it.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"
)

type options struct {
	engines       []string
	only          []string
	clients       []int
	rounds        int
	duration      time.Duration
	patience      time.Duration
	postgres      string
	sharedBuffers string
	json          string
	profile       string
	quick         bool
	keys          int
	variants      bool
	drivers       bool
	lease         bool
	steps         bool
	purge         bool
	retention     bool

	talk io.Writer
}

// progress says what is going on, where somebody is watching.
func (o *options) progress(format string, args ...any) {
	if o.talk != nil {
		fmt.Fprintf(o.talk, "\r\x1b[K"+format, args...)
	}
}

func parseOptions(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	engines := flags.String("db", "postgres,sqlite,memory", "what to run on")
	only := flags.String("only", "", "the variants to run, for profiles (default all)")
	clients := flags.String("clients", "", "numbers of clients (default 1,16; of --purge 1,4)")
	flags.BoolVar(&o.quick, "quick", false, "one short round of everything, to see that it works")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each variant is measured")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "how long one variant is measured in one round")
	flags.DurationVar(&o.patience, "patience", 0, "longest wait for each sample until other programs leave the machine idle (Linux)")
	flags.StringVar(&o.postgres, "postgres", "", "URL of a PostgreSQL server whose role may create databases (default: one is started)")
	flags.StringVar(&o.sharedBuffers, "shared-buffers", "128MB", "of the PostgreSQL that is started")
	flags.StringVar(&o.json, "json", "", "file to write the report to")
	flags.StringVar(&o.profile, "cpuprofile", "", "file to write a CPU profile of this process to")
	flags.IntVar(&o.keys, "keys", 0, "run only: a table of so many stored keys against an empty one; with --purge and --retention, how many are stored")
	flags.BoolVar(&o.variants, "schema-variants", false, "with --keys: other primary keys and indexes against ours")
	flags.BoolVar(&o.drivers, "drivers", false, "run only: the drivers for SQLite against each other")
	flags.BoolVar(&o.lease, "lease", false, "run only: lease mode against two plain writes, and its heartbeats")
	flags.BoolVar(&o.steps, "steps", false, "run only: operations of steps against those of none")
	flags.BoolVar(&o.purge, "purge", false, "run only: requests while keys are purged, of --keys (default 10,000,000) a tenth")
	flags.BoolVar(&o.retention, "retention", false, "run only: bytes on disk over ten periods, with --keys (default 100,000) in each")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.engines = strings.Split(*engines, ",")
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	o.fill(clients)
	for _, field := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--clients: %q is not a number of clients", field)
		}
		o.clients = append(o.clients, n)
	}
	if o.rounds < 1 || o.duration <= 0 {
		return nil, errors.New("--rounds and --duration must be positive")
	}
	if o.variants && o.keys == 0 {
		return nil, errors.New("--schema-variants needs --keys")
	}
	if o.keys < 0 || o.purge && o.keys < 10 {
		return nil, errors.New("--keys is too small")
	}
	alone := 0
	for _, run := range []bool{o.variants, o.drivers, o.lease, o.steps, o.purge, o.retention} {
		if run {
			alone++
		}
	}
	if alone > 1 {
		return nil, errors.New("--schema-variants, --drivers, --lease, --steps, --purge and --retention are runs of their own; give one of them")
	}
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		o.talk = os.Stderr
	}
	return o, nil
}

// fill puts defaults where they depend on what is run.
func (o *options) fill(clients *string) {
	if *clients == "" && o.purge {
		*clients = "1,4"
	}
	*clients = cmp.Or(*clients, "1,16")
	if o.quick {
		o.rounds, o.duration = 1, 100*time.Millisecond
	}
	if o.keys != 0 {
		return
	}
	switch {
	case o.purge && o.quick:
		o.keys = 50_000
	case o.purge:
		o.keys = 10_000_000
	case o.retention && o.quick:
		o.keys = 1000
	case o.retention:
		o.keys = 100_000
	}
}

func main() {
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, o, os.Stdout)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options, out io.Writer) error {
	stop, err := profile(o.profile)
	if err != nil {
		return err
	}
	report := &Report{Machine: thisMachine()}
	err = report.measure(ctx, o)
	stop()
	o.progress("")
	if err != nil {
		return err
	}
	report.print(out)
	if o.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(text, '\n'), 0o644)
}

func profile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, pprof.StartCPUProfile(f)
}

// measure runs what the options ask for.
func (r *Report) measure(ctx context.Context, o *options) (err error) {
	switch {
	case o.lease:
		r.Lease, err = measureLease(ctx, o)
		return err
	case o.steps:
		r.Steps, err = measureSteps(ctx, o)
		return err
	case o.purge:
		r.Purge, err = measurePurge(ctx, o)
		return err
	case o.retention:
		r.Retention, err = measureRetention(ctx, o)
		return err
	case o.variants:
		r.Schemas, err = measureSchemas(ctx, o)
		return err
	case o.keys > 0:
		r.Keys, err = measureKeys(ctx, o)
		return err
	case o.drivers:
		r.Drivers, err = measureDrivers(ctx, o)
		return err
	}
	if r.Comparisons, err = compareEngines(ctx, o, transactions); err != nil {
		return err
	}
	if slices.Contains(o.engines, "memory") {
		r.Memory = measureMemory(o)
	}
	return nil
}
