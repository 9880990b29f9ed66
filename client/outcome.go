package client

// An Outcome is how an operation ended, as far as the client can know.
type Outcome uint8

const (
	// Unknown: it may have taken effect, and it may do so yet.
	Unknown Outcome = iota
	// Done: it took effect.
	Done
	// NotDone: it certainly did not take effect, and what was sent will not do so either.
	NotDone
)

func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case NotDone:
		return "not done"
	}
	return "unknown"
}

// A Verdict is what one attempt means for its operation.
type Verdict uint8

const (
	// ByStatus leaves it to the status: below 300, and 303, is Succeeded; 425 and 429 are TryAgain; 408, 500, 502, 503 and
	// 504 are Uncertain; 307, 308, the other 4xx, 501 and 505 are Refused; the other 3xx, which may stand for either, and the
	// other 5xx are Unresolved.
	ByStatus Verdict = iota
	// Succeeded: the operation took effect, now or before. That is the end.
	Succeeded
	// Refused: this sending did nothing, and the same again would be refused too. What was sent before may have done
	// something, since the answer may come from in front of what recognises keys (401, 413).
	Refused
	// Failed: the operation ended without effect, and that is kept under the key. That is the end.
	Failed
	// Mismatch: the key belongs to another request. That is the end; a new key would hide a mistake. What was sent before
	// may have done something: the server may compare more than what was the same in each sending.
	Mismatch
	// TryAgain: this sending did nothing; the same may succeed later.
	TryAgain
	// InProgress: an earlier sending is being worked on; the same gets its answer later.
	InProgress
	// Uncertain: this sending may have done something; the same tells.
	Uncertain
	// Unresolved: it may have done something, and sending the same does not tell.
	Unresolved
)

func (v Verdict) String() string {
	return [...]string{"by status", "succeeded", "refused", "failed", "mismatch", "try again", "in progress", "uncertain", "unresolved"}[v]
}

// again tells whether the same request may be sent again.
func (v Verdict) again() bool { return v == TryAgain || v == InProgress || v == Uncertain }

// open tells whether the operation may have taken effect, or may do so yet.
func (v Verdict) open() bool { return v == InProgress || v == Uncertain || v == Unresolved }

// outcome is how an operation ended whose last attempt had the verdict. open is whether an earlier sending may have taken
// effect.
func (v Verdict) outcome(open bool) Outcome {
	switch v {
	case Succeeded:
		return Done
	case Failed:
		return NotDone
	case Refused, Mismatch, TryAgain:
		if !open {
			return NotDone
		}
	}
	return Unknown
}

// byStatus is the verdict that a status stands for.
func byStatus(status int) Verdict {
	switch {
	case status < 300 || status == 303:
		return Succeeded
	case status == 425 || status == 429:
		return TryAgain
	case status == 408 || status == 500 || status == 502 || status == 503 || status == 504:
		return Uncertain
	case status == 307 || status == 308 || status >= 400 && status < 500 || status == 501 || status == 505:
		return Refused
	}
	return Unresolved
}
