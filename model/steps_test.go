package model

import (
	"strings"
	"testing"
)

func TestP1P6_StepsModelHolds(t *testing.T) {
	testHolds(t, "steps.pml", "HOLD", "RERUN", "HOLD TX_FIRST")
}

// With fairness, and a resolver that knows: an operation is not in limbo for ever while there is somebody to finish it.
func TestP6_StepsModelEndsEveryLimbo(t *testing.T) {
	testEndsEveryLimbo(t, "steps.pml", "HOLD FAIRLY RESOLVER_KNOWS", "RERUN FAIRLY RESOLVER_KNOWS")
}

// What steps do not promise. If one of these is not found any more, the documents promise too little.
func TestStepsModelFindsTheLimits(t *testing.T) {
	testFinds(t, "steps.pml", []finding{
		{"PROVIDER_KNOWS_NO_KEYS", "charges==1"},
		{"LATE_OWNERS_CALL_NOBODY", "(token==me))&&lease"},
	})
}

// After the last attempt a resolver that does not know leaves the key unknown.
func TestStepsModelFindsTheLimbo(t *testing.T) {
	t.Parallel()
	requireSpin(t)
	if out := explore(t, "steps.pml", liveness, "FAIRLY"); !strings.Contains(out, "acceptance cycle") {
		t.Errorf("nothing was found:\n%s", out)
	}
}

// Mistakes that a store, a Manager or a handler could make.
func TestStepsModelFindsMistakes(t *testing.T) {
	testFinds(t, "steps.pml", []finding{
		{"KEEP_IGNORES_TOKEN", "(token==me))&&lease"},
		{"KEEP_IGNORES_LEASE", "lease)&&!(lapsed[me])"},
		{"KEEP_IGNORES_NUMBER", "==(kept+1)"},
		{"COMPLETE_IGNORES_LEASE", "lease)&&!(lapsed[me])"},
		{"KEPT_BEFORE_THE_EFFECT", "charges==1))&&(rows==1)"},
		{"ROW_COMMITTED_APART", "(rows==1)"},
		{"UNKNOWN_COMMIT_IS_KEPT", "charges==1))&&(rows==1)"},
		{"STEPS_READ_BEFORE_THE_CLAIM", "next>before"},
		{"TAKEOVER_FORGETS_STEPS", "(rows==1)"},
		{"STEPS_OUTLIVE_THE_RECORD", "(kept==0)&&"},
		{"KEY_OF_THE_ATTEMPT", "(charges==1)"},
		{"MARKED_BY_THE_FIRST_KEPT", "!(stepping)"},
		{"REFUSAL_FORGETS_STEPS", "(kept==0)&&(rows==0)"},
		{"REFUSAL_TRUSTS_ERRORS TX_FIRST", "(kept==0)&&(rows==0)"},
		{"ATTEMPTS_UNCOUNTED", "begun<2"},
		{"REPEATED_CLAIM_COUNTS", "(begun==2)||"},
		{"LIMIT_UNCHECKED", "!(told_unknown)"},
		{"ASKED_ABOUT_WHAT_RESUMES", "!(told_unknown)"},
		{"FINISHER_IGNORES_LEASES", "&&!(lease))"},
		{"RESERVED_IN_TWO_STEPS", "reserved==0"},
		{"RESERVATIONS_NEVER_END", "drivers==0"},
		{"LEASES_NEVER_END", "drivers==0"},
	})
}
