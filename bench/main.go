// Command bench measures ichido against what it replaces, side by side in one run.
//
//	go run ./bench                    the comparisons on PostgreSQL and SQLite, and the costs in memory
//	go run ./bench --lease            another run; --help lists them
//	go run ./bench --quick            too short to mean anything: does it work?
//	go run ./bench --keys 10000000    a table full of keys against an empty one, on PostgreSQL
//	go run ./bench --all --json report.json --report report.html --markdown report.md
//	go run ./bench --from report.json --report report.html
//
// The tables go to stdout, what is going on to stderr, a [Report] to the file of --json, and the same as a document with
// plots to that of --report. README.md says what is compared and how to read it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// allEngines is what --db may name.
var allEngines = []string{"postgres", "sqlite", "memory"}

type options struct {
	runs          []run
	engines       []string
	only          []string
	clients       []int
	rounds        int
	duration      time.Duration
	patience      time.Duration
	postgres      string
	sharedBuffers string
	from          string
	json          string
	html          string
	markdown      string
	profile       string
	quick         bool
	keys          []int // ascending
	all           bool
	args          []string // the settings that were given, to be shown

	talk *progress // nil is silent
}

func parseOptions(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	chosen := make([]bool, len(runs))
	for i, r := range runs {
		flags.BoolVar(&chosen[i], r.name, false, "run: "+r.about)
	}
	flags.BoolVar(&o.all, "all", false, "run all of these but --schema-variants (README.md says for how long)")
	engines := flags.String("db", strings.Join(allEngines, ","), "what to run on")
	only := flags.String("only", "", "the variants to run, for profiles (default all)")
	clients := flags.String("clients", "", "numbers of clients (each run has its own default)")
	keys := flags.String("keys", "", "how many stored keys; alone, and with several numbers, it stands for --stored-keys")
	flags.BoolVar(&o.quick, "quick", false, "one short round of everything, to see that it works")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each variant is measured")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "how long one variant is measured in one round")
	flags.DurationVar(&o.patience, "patience", 0, "longest wait for each sample until other programs leave the machine idle (Linux)")
	flags.StringVar(&o.postgres, "postgres", "", "URL of a PostgreSQL server whose role may create databases (default: one is started)")
	flags.StringVar(&o.sharedBuffers, "shared-buffers", "128MB", "of the PostgreSQL that is started")
	flags.StringVar(&o.from, "from", "", "file of --json to begin with: what is run replaces its parts, and nothing is run unless it is named")
	flags.StringVar(&o.json, "json", "", "file to write the report to")
	flags.StringVar(&o.html, "report", "", "file to write the report to as a page with plots")
	flags.StringVar(&o.markdown, "markdown", "", "file to write the report to as Markdown")
	flags.StringVar(&o.profile, "cpuprofile", "", "file to write a CPU profile of this process to")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.engines = strings.Split(*engines, ",")
	for _, e := range o.engines {
		if !slices.Contains(allEngines, e) {
			return nil, fmt.Errorf("--db: %q is none of %s", e, strings.Join(allEngines, ", "))
		}
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	flags.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "quick":
			o.args = append(o.args, "--quick")
		case "db", "only", "clients", "keys", "rounds", "duration", "patience", "shared-buffers":
			o.args = append(o.args, "--"+f.Name+"="+f.Value.String())
		case "postgres": // its URL may hold a password
			o.args = append(o.args, "--postgres=URL")
		}
	})
	var err error
	if o.clients, err = numbers("--clients", *clients); err != nil {
		return nil, err
	}
	if o.keys, err = numbers("--keys", *keys); err != nil {
		return nil, err
	}
	slices.Sort(o.keys)
	if o.rounds < 1 || o.duration <= 0 {
		return nil, errors.New("--rounds and --duration must be positive")
	}
	if o.quick {
		o.rounds, o.duration = 1, 100*time.Millisecond
	}
	return o, o.choose(chosen)
}

// numbers reads a list of numbers above zero. None is nil.
func numbers(flag, list string) (out []int, err error) {
	if list == "" {
		return nil, nil
	}
	for _, field := range strings.Split(list, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q is not a number above zero", flag, field)
		}
		out = append(out, n)
	}
	return out, nil
}

// choose decides what is run, by the flags of the runs.
func (o *options) choose(chosen []bool) error {
	for i, r := range runs {
		if chosen[i] || o.all && r.name != schemaVariants {
			o.runs = append(o.runs, r)
		}
	}
	if len(o.runs) == 0 && o.from == "" {
		alone := "transactions"
		if o.keys != nil {
			alone = "stored-keys"
		}
		o.runs = slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.name != alone })
	}
	for _, r := range o.runs {
		if one := o.of(r); len(one.keys) > 0 && one.most() < r.leastKeys {
			return fmt.Errorf("--%s needs --keys of at least %d", r.name, r.leastKeys)
		}
	}
	return nil
}

// of returns the options of one run, with its defaults for what was not given.
func (o *options) of(r run) *options {
	one := *o
	if one.clients == nil {
		one.clients = []int{1, 16}
	}
	if r.defaults != nil {
		r.defaults(&one, o)
	}
	return &one
}

// most is the largest number of keys.
func (o *options) most() int { return o.keys[len(o.keys)-1] }

func main() {
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		o.talk = newProgress(os.Stderr)
		err = execute(ctx, o, os.Stdout)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func execute(ctx context.Context, o *options, out io.Writer) error {
	report := new(Report)
	if o.from != "" {
		if err := report.read(o.from); err != nil {
			return err
		}
	}
	if len(o.runs) == 0 {
		return report.write(o, out)
	}
	for _, file := range []string{o.json, o.html, o.markdown} { // not only after measuring for an hour
		if err := writable(file); err != nil {
			return err
		}
	}
	stop, err := profile(o.profile)
	if err != nil {
		return err
	}
	done, err := report.measure(ctx, o)
	stop()
	if done == 0 {
		return err
	}
	if e := report.write(o, out); err == nil || e != nil {
		return errors.Join(err, e)
	}
	return fmt.Errorf("%w\n%s", err, o.rest(done))
}

// writable returns an error if a file, unless it is "", cannot be written. It leaves it as it is.
func writable(file string) error {
	if file == "" {
		return nil
	}
	_, missing := os.Stat(file)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil || missing == nil {
		return err
	}
	return os.Remove(file)
}

// rest says how to go on after so many runs.
func (o *options) rest(done int) string {
	if o.json == "" {
		return fmt.Sprintf("%d of %d runs are in the report; with --json, --from could add the others", done, len(o.runs))
	}
	line := "go run ./bench --from " + o.json + " --json " + o.json
	for _, r := range o.runs[done:] {
		line += " --" + r.name
	}
	return fmt.Sprintf("%d of %d runs are in the report; this adds the others:\n  %s", done, len(o.runs), strings.Join(append([]string{line}, o.args...), " "))
}

// read takes over a report that was written before.
func (r *Report) read(file string) error {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return fmt.Errorf("--from: %s: %w", file, err)
	}
	return nil
}

// write writes the report in each form that is asked for.
func (r *Report) write(o *options, out io.Writer) error {
	d := r.document()
	if err := d.text(out); err != nil {
		return err
	}
	for _, form := range []struct {
		file  string
		write func(io.Writer) error
	}{{o.json, r.json}, {o.html, d.html}, {o.markdown, d.markdown}} {
		if form.file == "" {
			continue
		}
		var b bytes.Buffer
		if err := form.write(&b); err != nil {
			return fmt.Errorf("%s: %w", form.file, err)
		}
		if err := os.WriteFile(form.file, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
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

// measure makes the runs that the options ask for, and returns how many of them are done. What the report had of the one
// that failed stays.
func (r *Report) measure(ctx context.Context, o *options) (done int, err error) {
	defer o.talk.end()
	machine := thisMachine()
	if len(r.Runs) > 0 && !reflect.DeepEqual(r.Machine, machine) {
		return 0, fmt.Errorf("--from: one report is of one machine and of the same versions: that one is of %+v, and this is %+v", r.Machine, machine)
	}
	r.Machine = machine
	for i, one := range o.runs {
		o.talk.title("%d of %d, %s", i+1, len(o.runs), one.name)
		this := Done{Name: one.name, Time: time.Now().UTC().Truncate(time.Second), LoadAverage: loadAverage(), CommandLine: o.commandLine(one)}
		began := time.Now()
		next := *r
		if err := one.measure(ctx, o.of(one), &next); err != nil {
			return i, fmt.Errorf("%s: %w", one.name, err)
		}
		this.Seconds = time.Since(began).Seconds()
		next.Runs = append(slices.DeleteFunc(slices.Clone(r.Runs), func(d Done) bool { return d.Name == one.name }), this)
		*r = next
	}
	return len(o.runs), nil
}
