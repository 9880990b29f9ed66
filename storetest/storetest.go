// Package storetest is the suite that every store passes. Run it on a store of your own:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Database { … })
//	}
//
// Run it with the race detector. It makes no assumption about locks: a store that cannot see an attempt in progress
// passes, as long as no two attempts of one key take effect. It runs on the store's own clock, whatever that says.
//
// What the store does not offer is skipped: cases named Lease_ need an [ichido.Leaser], Settle_ an [ichido.Settler],
// Inspect_ an [ichido.Inspector], Step_ an [ichido.Stepper], Finish_ an [ichido.Finisher]. Each sees more if the store is all of them, and an [ichido.Purger].
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/ichido-dev/ichido"
)

// A Database is a fresh, empty database with the store's schema.
type Database struct {
	// Open returns a Store on the database that shares no memory with the others that Open returned, as if it
	// were in another process. A store that lives in memory returns the same one each time.
	Open func(t *testing.T) ichido.Store

	// Work writes a row with the given name in the transaction of the attempt that ctx belongs to. It returns an
	// error for the name "refused", because the table has a constraint. Leave it nil if attempts have no
	// transaction.
	Work func(ctx context.Context, name string) error

	// Rows returns how many committed rows have the name. Required with Work.
	Rows func(t *testing.T, name string) int

	// Add reads a counter, and writes it increased by one, in the transaction of the attempt that ctx belongs to, in
	// a way that the database does not allow two transactions at once. Optional.
	Add func(ctx context.Context) error

	// Total returns the committed value of Add's counter. Required with Add.
	Total func(t *testing.T) int

	// Connections is how many connections each opened Store can use at once; attempts of transaction mode hold one
	// each. Zero means that there is no bound.
	Connections int
}

// Run runs the suite, each case on a database of its own.
func Run(t *testing.T, newDatabase func(t *testing.T) Database) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.proves)
			c.run(&suite{T: t, Database: newDatabase(t)})
		})
	}
}

type testCase struct {
	name   string
	proves string // in one line
	run    func(*suite)
}

var cases = []testCase{
	{"P3_SameAnswer", "what was stored comes back to the byte, with an empty, a binary and a large body", sameAnswer},
	{"P5_AbandonLeavesNothing", "an abandoned attempt leaves no row and no key", abandonLeavesNothing},
	{"P5_FailedWorkLeavesNothing", "work that the database refused leaves nothing, and the key works again", failedWorkLeavesNothing},
	{"P4_RecordKeepsItsFingerprint", "asking with another fingerprint shows the record as it was and does not change it", recordKeepsItsFingerprint},
	{"P1_SecondAttemptNeverCommits", "two attempts of one key at the same time: one takes effect at most", secondAttemptNeverCommits},
	{"P1_RacingDuplicates", "many attempts of one key from several processes: exactly one takes effect, and all later ones see it", racingDuplicates},
	{"P1_RacingDuplicatesAfterExpiry", "the same when the key's expired record is still there", racingAfterExpiry},
	{"ExpiredIsAbsent", "a record past its retention is as good as none, and is replaced", expiredIsAbsent},
	{"KeysAndScopesAreApart", "keys differ by every byte, in every scope", keysAndScopesAreApart},
	{"ClaimsFailWithTheirContext", "a claim whose context has ended fails and claims nothing", claimsFailWithTheirContext},
	{"AttemptsOutliveTheirClaim", "the end of the claim's context does not end the attempt", attemptsOutliveTheirClaim},
	{"NothingLeaks", "a thousand endings of every kind leave all connections free", nothingLeaks},
	{"Purge", "purging deletes what is expired, within its limit, and nothing else", purge},
	{"PurgersShareTheWork", "purgers at the same time delete each record once", purgersShareTheWork},
	{"HTTP_P1_DuplicatesRejected", "many duplicates at once at two processes: one runs, the others get 409 or its answer", duplicatesRejected},
	{"HTTP_P1_DuplicatesWait", "the same under the policy Wait: all get the one answer", duplicatesWait},
	{"HTTP_WaitersHoldNoConnection", "500 duplicates wait for one slow request while other keys are served", waitersHoldNoConnection},
	{"HTTP_P4_MismatchWhileRunning", "another request under the key of a running one gets 422 at once", mismatchWhileRunning},
	{"HTTP_P5_EveryWayOut", "errors, panics, Goexit, flush, hijack: nothing is left, the key works again, nothing leaks", everyWayOut},
	{"HTTP_P3_LosersRefusal", "a duplicate that refuses because of what the winner did is answered from the winner's record", losersRefusal},
	{"HTTP_ClientHangsUp", "a client that hangs up does not stop the work; its next sending gets the answer", clientHangsUp},
	{"HTTP_ConflictingTransactions", "transactions that the database aborts to keep order are run again", conflictingTransactions},
	{"Do_RunsOnce", "work without a request: an error leaves nothing, a result is kept, another input is a mismatch", doRunsOnce},
	{"Step_Kept", "the steps of an attempt are there for the next, in order and to the byte, and a record with steps resumes", stepsAreKept},
	{"Step_Apart", "keys and scopes have steps of their own", stepsOfOthers},
	{"Step_P1_Fenced", "an attempt that lost its lease keeps no step", stepsAreFenced},
	{"Step_Repeatable", "a step is kept again without harm; gaps and other names are refused", stepsAreRepeatable},
	{"Step_EndWithTheRecord", "a key that begins anew has no steps of before", stepsEndWithTheRecord},
	{"Step_P1_ResumeOnce", "of many claims of an operation that resumes one gets it, and no other request does", stepsResumeOnce},
	{"Step_P1_Race", "a step is kept by an attempt or refused, never both, while another takes over", stepsRace},
	{"Step_Shown", "an operation that resumes is shown with its steps, and nobody is asked about it", stepsAreShown},
	{"HTTP_Lease_P1_Duplicates", "many duplicates at once at two processes, in lease mode: one runs, under either policy", leaseDuplicates},
	{"HTTP_Lease_P4_MismatchWhileRunning", "another request gets 422 while the first one runs, in every process", leaseMismatchWhileRunning},
	{"HTTP_Lease_EveryWayOut", "what may have had an effect holds its key, or runs again where the route says so; what had none frees it", leaseEveryWayOut},
	{"HTTP_Lease_HoldsNoConnection", "more attempts run at once than there are connections", leaseAttemptsHoldNoConnection},
	{"HTTP_Lease_Heartbeat", "an attempt outlives its lease, by the store's own clock", leaseHeartbeat},
	{"HTTP_Lease_Resolver", "an unknown key is settled by the next duplicates, with one call, or by sweeps, each once", leaseResolver},
	{"HTTP_Lease_HandedBack", "a process that is stopped hands back its leases; the next one goes on at once", leaseHandedBack},
	{"Finish_OnlyWhatWouldRun", "what is abandoned is what the next claim runs, from a request that is kept", finishOnlyWhatWouldRun},
	{"Finish_KeepsTheRequest", "a request comes back to the byte, as the first claim had it, and the operation is described in full", finishKeepsTheRequest},
	{"Finish_P8_ForgetsTheRequest", "a request goes with the completion, and no later life of the key has it", finishForgetsTheRequest},
	{"Finish_Reserves", "an operation goes to one, for a time, is not due again at once, and its client is not hindered", finishReserves},
	{"Finish_ByRoute", "the operations of a route are handed out within the limit, the longest wait first", finishByRoute},
	{"Finish_P1_EachOnce", "several look at the same time: each operation goes to one of them", finishEachOnce},
	{"Finish_P1_Follows", "a claim that must follow an attempt meets records as others do, and begins nothing where there is none", finishFollows},
	{"Finish_P6_FollowsRace", "a claim that must follow an attempt races with who settles the key: one of the two gets it", followersRaceWithSettling},
	{"Finish_P6_MaxAttempts", "there are exactly as many attempts as there may be; then the key is unknown, is asked about, and can be settled", attemptsAreBounded},
	{"Finish_P6_LimitOfTheRecord", "the limit that the last attempt stored counts, not that of the claim", limitOfTheRecordCounts},
	{"Finish_P6_AttemptsRace", "of many claims whose attempts go at once there are exactly as many as there may be", attemptsRace},
	{"Finish_Owner", "whose attempt it is, or was last, is shown; heartbeats, steps and refusals do not change it", ownerIsShown},
	{"HTTP_Finish_WithoutTheClient", "what died after any step is finished by another process, each step once", finishWithoutTheClient},
	{"HTTP_Finish_P1_Shared", "two processes finish at once: each operation is run by one of them, each step has one effect", finishersShareTheWork},
	{"HTTP_Finish_ClientComesBack", "a client that comes back meanwhile gets 409, or waits for the answer", clientComesBack},
	{"HTTP_Finish_GivesUp", "work that keeps failing has its attempts, by whoever, and is unknown then", finishGivesUp},
	{"MigrateTwiceAtOnce", "migrating again and from several processes at once does no harm", migrateTwiceAtOnce},

	{"Lease_P3_SameAnswer", "what an attempt with a lease stored comes back to the byte", leaseSameAnswer},
	{"Lease_P3_ModesShareRecords", "what one mode completed the other replays", modesShareRecords},
	{"Lease_P1_HeldKeyIsRefused", "a key under a running lease gets ErrInProgress, or ErrMismatch for another request, in both modes", heldKeyIsRefused},
	{"Lease_P1_RacingClaims", "of many claims at once exactly one gets an attempt", racingClaims},
	{"Lease_P1_ModesRace", "many attempts of both modes: exactly one takes effect, and all later ones see it", modesRace},
	{"Lease_P1_TransactionsLoseToALease", "a transaction does not commit over a lease that was claimed after it began", transactionsLoseToALease},
	{"Lease_OwnTokenIsRecognised", "a claim and a completion may be repeated, and count once", ownTokenIsRecognised},
	{"Lease_OwnTokenRenews", "a repeated claim renews its lease", ownTokenRenews},
	{"Lease_TokensAreExact", "tokens differ by every bit", tokensAreExact},
	{"Lease_AbandonFreesTheKey", "a first attempt that ends without a cause leaves nothing", abandonFreesTheKey},
	{"Lease_AbandonAfterAnother", "a later attempt that ends without a cause leaves what the attempts before it left", abandonAfterAnother},
	{"Lease_AbandonWithCause", "an attempt that ends with a cause leaves the key unknown, or to be run again, at once", abandonWithCause},
	{"Lease_CompletedIsFinal", "an attempt that completed its key cannot take that back", completedIsFinal},
	{"Lease_KeysAndScopesAreApart", "leases are told apart by every byte of their keys and scopes", leaseKeysAndScopesAreApart},
	{"Lease_ClaimsFailWithTheirContext", "a claim whose context has ended fails and claims nothing", leaseClaimsFailWithTheirContext},
	{"Lease_OutlivesItsClaim", "the end of the claim's context does not end the attempt", leasesOutliveTheirClaim},
	{"Lease_HoldsNoConnection", "there may be more attempts in progress than connections", leasesHoldNoConnection},

	{"Lease_P6_Hold", "a key whose attempt went is unknown to all claims, and no claim gets an attempt", unknownIsHeld},
	{"Lease_P6_RerunOnce", "of many claims at once exactly one takes over from an attempt that went", lapsedIsTakenOverOnce},
	{"Lease_P6_RerunAgain", "each takeover counts, and brings its own token, lease and retention", takenOverAgain},
	{"Lease_P6_RerunOnOneSide", "where only the record or only the claim says Rerun, nothing is taken over", rerunOnOneSide},
	{"Lease_P4_NoTakeoverByAnotherRequest", "a claim with another fingerprint never takes over", noTakeoverByAnotherRequest},
	{"Lease_P1_LateAttempts", "an attempt whose key has passed to another can do nothing to it", lateAttempts},
	{"Lease_P1_LapsedAttempts", "an attempt whose lease ran out can do nothing, even if nobody came", lapsedAttempts},
	{"Lease_P1_CompletionRacesTakeover", "an attempt completes its key or is taken over from, never both", completionRacesTakeover},
	{"Lease_P1_RenewalRacesTakeover", "an attempt that was taken over from never again renews", renewalRacesTakeover},

	{"Lease_RenewKeepsAlive", "a lease that is renewed in time outlives its first end", renewKeepsAlive},
	{"Lease_RenewReportsEach", "leases of every kind in one call: each is reported and renewed by itself", renewReportsEach},
	{"Lease_RenewNoneAndMany", "none or a thousand leases are renewed in one call", renewNoneAndMany},

	{"Lease_ExpiredIsReplaced", "records past their retention are as good as none, and leave nothing to what replaces them", expiredIsReplaced},
	{"Lease_RetentionIsThatOfTheState", "UnknownRetention ends with the completion, and Retention begins with it", retentionIsThatOfTheState},
	{"Lease_PurgeSparesLeases", "purging deletes no record under a running lease, and what is unknown when its own time is over", purgeSparesLeases},

	{"Settle_AskReserves", "a key that is asked about is reserved, and is described in full", askReserves},
	{"Settle_ReservationsEnd", "a reservation ends with its patience, and each question counts", reservationsEnd},
	{"Settle_AskOnlyUnknown", "nobody is asked about keys in another state", askOnlyUnknown},
	{"Settle_AskDoesNotLookAtRerun", "a key that may be run again can be asked about and settled too, until a claim takes it over", askDoesNotLookAtRerun},
	{"Settle_EachIsAskedOnce", "several ask at the same time: each key goes to one of them", eachIsAskedOnce},
	{"Settle_SweepsByRoute", "a sweep gets the keys of its route, within its limit, the longest wait first", sweepsByRoute},
	{"Settle_StillUnknown", "an answer that settles nothing ends the reservation, is not recorded, and sweeps ask less often", stillUnknown},
	{"Settle_P3_Done", "a key that was settled as done replays that answer to the byte, and the late attempt hears that it lost", settledDone},
	{"Settle_FreesTheKey", "a key that was settled as not done, or deleted, works again", settledFreesTheKey},
	{"Settle_Errors", "every way to settle in every state: only what is unknown changes, unless it shall be deleted", settleErrors},
	{"Settle_RacingSettlements", "several settle one key at the same time: exactly one does", racingSettlements},
	{"Settle_SettlementsAreKept", "who settled what, how, why and when is kept, also when the record is gone", settlementsAreKept},

	{"Inspect_ListsInPages", "pages of any length show each record once, in the order of bytes", listsInPages},
	{"Inspect_ListsWhatTheFilterChooses", "each filter, alone and with others, takes its value to the byte", listsWhatTheFilterChooses},
	{"Inspect_EntriesOfTransactions", "a record of transaction mode is shown with its answer, to the byte, and nothing of a lease", entriesOfTransactions},
	{"Inspect_EntriesOfLeases", "a record of lease mode is shown in every state", entriesOfLeases},
	{"Inspect_LookFindsOnlyTheKey", "a look at another key or scope finds nothing", lookFindsOnlyTheKey},
	{"Inspect_ExpiredIsListedUntilPurged", "what is past its retention is shown until it is purged", expiredIsListedUntilPurged},
}

// patience bounds every wait of the suite; it is far from what a wait takes.
const patience = 2 * time.Minute

// A suite is one case at work.
type suite struct {
	*testing.T
	Database
}

func (s *suite) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.Cleanup(cancel)
	return ctx
}

// claim returns the claim of a request with the key whose content is given.
func claim(key, content string) ichido.Claim {
	return ichido.Claim{Scope: "suite POST /things", Key: key, Fingerprint: []byte("v:" + content), Retention: time.Hour}
}

// expiring is claim with a retention that is over as soon as it began.
func expiring(key, content string) ichido.Claim {
	c := claim(key, content)
	c.Retention = time.Nanosecond
	return c
}

func answer(body string) ichido.Response {
	return ichido.Response{Status: 201, Header: []byte("Content-Type: text/plain\nLocation: /things/1\n"), Body: []byte(body)}
}

// begin claims a key that must be free.
func (s *suite) begin(store ichido.Store, c ichido.Claim) ichido.Attempt {
	s.Helper()
	attempt, record, err := store.Begin(s.context(), c)
	if err != nil || record != nil || attempt == nil {
		s.Fatalf("Begin(%q) = %v, %v, %v; want an attempt", c.Key, attempt, record, err)
	}
	return attempt
}

// record asks for a key that must be completed.
func (s *suite) record(store ichido.Store, c ichido.Claim) *ichido.Record {
	s.Helper()
	attempt, record, err := store.Begin(s.context(), c)
	if err != nil || record == nil || attempt != nil {
		s.Fatalf("Begin(%q) = %v, %v, %v; want a record", c.Key, attempt, record, err)
	}
	return record
}

func (s *suite) work(attempt ichido.Attempt, name string) error {
	if s.Work == nil {
		return nil
	}
	return s.Work(attempt.Context(s.context()), name)
}

func (s *suite) complete(attempt ichido.Attempt, r ichido.Response) {
	s.Helper()
	if err := attempt.Complete(s.context(), r); err != nil {
		s.Fatalf("Complete: %v", err)
	}
}

func (s *suite) abandon(attempt ichido.Attempt, cause error) {
	s.Helper()
	if err := attempt.Abandon(s.context(), cause); err != nil {
		s.Fatalf("Abandon: %v", err)
	}
}

// run does the whole operation once under a key that must be free.
func (s *suite) run(store ichido.Store, c ichido.Claim, r ichido.Response) {
	s.Helper()
	attempt := s.begin(store, c)
	if err := s.work(attempt, c.Key); err != nil {
		s.Fatalf("work: %v", err)
	}
	s.complete(attempt, r)
}

func (s *suite) wantRows(name string, want int) {
	s.Helper()
	if s.Rows == nil {
		return
	}
	if got := s.Rows(s.T, name); got != want {
		s.Errorf("%d rows named %q are committed, want %d", got, name, want)
	}
}
