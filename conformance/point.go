package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A point is one on which APIs differ. asked is what the source asks for; known are replies of well-known APIs that harm
// nobody, and so need not be promised.
type point struct {
	asked, known []string
}

var (
	noKeyPoint       = point{asked: []string{"400"}, known: []string{"422", "428"}}
	mismatchPoint    = point{asked: []string{"422"}, known: []string{"400", "409"}}
	inProgressPoint  = point{asked: []string{"409"}, known: []string{"423", "425", "429", wait}}
	correctedPoint   = point{asked: []string{execute}, known: []string{"422", "400"}}
	serverErrorPoint = point{asked: []string{execute}, known: []string{replay}} // draft-07 section 2.6 can be read so
	principalPoint   = point{asked: []string{execute}, known: []string{"400", "403", "404", "409", "422"}}
)

// reply returns an answer as a point has it, seen from one that came before, if there is one.
func (a answer) reply(before *answer) string {
	switch {
	case a.err != nil:
		return "no answer"
	case before != nil && (a.marked || a.status == before.status && bytes.Equal(a.body, before.body)):
		return replay
	case before != nil && a.success() && a.sameAs(*before):
		return replay
	case a.success():
		return execute
	}
	return strconv.Itoa(a.status)
}

// isMismatch reports whether an answer refuses the request for good, and not as one whose key is in progress.
func (a answer) isMismatch() bool {
	return a.refused() && (a.status != http.StatusConflict || a.api.Expect.Mismatch.has(a.status))
}

// judge notes how an answer, which is the reply, stands to a point and to what the description promises about it.
func (t *trial) judge(which string, p point, promised Replies, reply string, a answer) {
	allowed := slices.Contains(promised, reply)
	switch {
	case slices.Contains(p.asked, reply) && (promised == nil || allowed):
	case allowed:
		t.differ(fmt.Sprintf("%s: %s, as the description promises; %s asks for %s", which, reply, t.scenario.source,
			strings.Join(p.asked, " or ")))
	case promised == nil && slices.Contains(p.known, reply):
		t.differ(fmt.Sprintf("%s: %s, as some well-known APIs; %s asks for %s", which, reply, t.scenario.source,
			strings.Join(p.asked, " or ")))
	default:
		want := strings.Join(p.asked, " or ")
		if promised != nil {
			want = strings.Join(promised, " or ") + ", which the description promises"
		}
		t.fault(which, []string{fmt.Sprintf("%s, not %s%s", reply, want, a.detail())})
	}
}

// differ notes that something is another way than the source asks for, and may be.
func (t *trial) differ(how string) {
	if !slices.Contains(t.notes, how) {
		t.notes = append(t.notes, how)
	}
}
