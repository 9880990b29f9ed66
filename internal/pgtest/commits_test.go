package pgtest

import "slices"

// commitStyles are the ways in which drivers commit. Each takes an open transaction and sends its end
// together with one insert or after it; the answer is left unread.
var commitStyles = []struct {
	name string
	// prepare is answered before the transaction begins.
	prepare []message
	flights [][]message
}{
	{"simple query", nil, [][]message{{simple("insert into t values (1)")}, {simple("COMMIT;")}}},
	{"one string", nil, [][]message{{simple("insert into t values (1); commit")}}},
	{"unnamed statement", nil, [][]message{
		append(run("insert into t values (1)"), syncUp), append(run("commit"), syncUp)}},
	{"insert and commit in one pipeline", nil, [][]message{
		slices.Concat(run("insert into t values (1)"), run("Commit"), []message{syncUp})}},
	{"pipeline of two requests", nil, [][]message{
		slices.Concat(run("insert into t values (1)"), []message{syncUp}, run("commit"), []message{syncUp})}},
	{"prepared statement", []message{parse("c1", "/* app */ commit work"), syncUp}, [][]message{
		append(run("insert into t values (1)"), syncUp), {bind("p1", "c1"), executePortal("p1"), syncUp}}},
	{"flush before sync", nil, [][]message{
		append(run("insert into t values (1)"), syncUp), append(run("end"), flush)}},
}

// drive runs one transaction in the given style and returns the error that the client meets.
func drive(c *client, prepare []message, flights [][]message) error {
	if prepare != nil {
		if err := c.send(prepare...); err != nil {
			return err
		}
		if _, err := c.receive(1); err != nil {
			return err
		}
	}
	if err := c.query("begin"); err != nil {
		return err
	}
	for _, flight := range flights {
		if err := c.send(flight...); err != nil {
			return err
		}
		if _, err := c.receive(requests(flight)); err != nil {
			return err
		}
	}
	return nil
}

// requests is how many ReadyForQuery the flight brings; at least one, which a Flush never brings.
func requests(flight []message) int {
	n := 0
	for _, m := range flight {
		if m.kind == kindSync || m.kind == kindQuery {
			n++
		}
	}
	return max(n, 1)
}
