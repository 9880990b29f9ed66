package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/*.txtar on both databases: the program as people and their scripts see it. Beyond what
// testscript has, they may say
//
//	exits CODE COMMAND...   run a command, which must end with the code
//	serve [FLAG...]         start ichido serve on a free port; $URL is where, $HOST without scheme
//	stop                    end it by SIGTERM; what it printed is in serve.out and serve.err
//	sql STATEMENT           run a statement on $DATABASE_URL
//	pay USER KEY            a payment in lease mode, see keys_test.go; its answer is in pay.out
//	lose USER KEY           one whose work fails: its key is unknown
//	hold USER KEY           one that is in progress
//	[postgres], [sqlite]    the kind of $DATABASE_URL
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts: ", err)
	}
	bin := installProgram(t)
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			onBoth(t, func(t *testing.T, location string) { runScript(t, script, location, bin) })
		})
	}
}

func runScript(t *testing.T, script, location, bin string) {
	kind := "sqlite"
	if isPostgres(location) {
		kind = "postgres"
	}
	var serving *process // of this script
	testscript.Run(t, testscript.Params{
		Files:              []string{script},
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("DATABASE_URL", location)
			env.Setenv("GORACE", raceOptions)
			return nil
		},
		Condition: func(condition string) (bool, error) { return condition == kind, nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"sql": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(execSQL(location, strings.Join(args, " ")))
			},
			"pay": func(ts *testscript.TestScript, _ bool, args []string) {
				answer, err := pay(location, args[0], args[1], nil)
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs("pay.out"), []byte(answer), 0o600))
			},
			"lose": func(ts *testscript.TestScript, _ bool, args []string) {
				_, err := pay(location, args[0], args[1], errors.New("the connection was lost"))
				ts.Check(err)
			},
			"hold": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(hold(location, args[0]+" POST /payments", args[1]))
			},
			"serve": func(ts *testscript.TestScript, _ bool, args []string) {
				serving = serveInScript(ts, filepath.Join(bin, "ichido"), args)
			},
			"stop": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(serving.end(syscall.SIGTERM))
				ts.Check(os.WriteFile(ts.MkAbs("serve.out"), []byte(serving.stdout.String()), 0o600))
				ts.Check(os.WriteFile(ts.MkAbs("serve.err"), []byte(serving.stderr.String()), 0o600))
			},
		},
	})
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if args[0] != strconv.Itoa(code) {
		ts.Fatalf("ended with code %d, want %s", code, args[0])
	}
}

// serveInScript takes from the script's environment what serve may be told by it.
func serveInScript(ts *testscript.TestScript, program string, args []string) *process {
	cmd := exec.Command(program, append([]string{"serve"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "GORACE", "DATABASE_URL", "ICHIDO_IN_PROGRESS", "ICHIDO_WAIT_LIMIT",
		"ICHIDO_RETENTION", "ICHIDO_PURGE_EVERY", "ICHIDO_LANG", "ICHIDO_WORK", "ICHIDO_TOKENS",
		"ICHIDO_PAY", "ICHIDO_MAILBOX", "ICHIDO_LEASE", "ICHIDO_FINISH_EVERY", "ICHIDO_STEP_SECRET"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "ICHIDO_ADDR=localhost:0")
	p, err := startServe(cmd)
	ts.Check(err)
	ts.Defer(p.kill)
	ts.Setenv("URL", p.url)
	ts.Setenv("HOST", strings.TrimPrefix(p.url, "http://"))
	return p
}
