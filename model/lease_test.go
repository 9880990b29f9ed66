package model

import "testing"

func TestP1P4P6_LeaseModelHolds(t *testing.T) {
	testHolds(t, "lease.pml", "HOLD", "RERUN")
}

// With fairness, and a resolver that knows: the key is not in limbo for ever, whatever happens before.
func TestP6_LeaseModelEndsEveryLimbo(t *testing.T) {
	testEndsEveryLimbo(t, "lease.pml", "HOLD RESOLVER_KNOWS", "RERUN RESOLVER_KNOWS")
}

// What lease mode does not promise. If one of these is not found any more, the documents promise too little.
func TestLeaseModelFindsTheLimits(t *testing.T) {
	testFinds(t, "lease.pml", []finding{
		{"SETTLEMENTS_ARE_FINAL", "!(effect)||0"},   // not done, and then a late effect
		{"CLAIM_ANY_TIME", "lease)&&!(lapsed[me])"}, // a claim that arrives after its lease
	})
}

// Mistakes that a store could make.
func TestLeaseModelFindsMistakes(t *testing.T) {
	testFinds(t, "lease.pml", []finding{
		{"RERUN NO_FENCING", "completions==1"},
		{"NO_FENCING", "!(told_unknown)"},
		{"LEASE_UNCHECKED", "lease)&&!(lapsed[me])"},
		{"ABANDON_IGNORES_TOKEN", "token==me))&&lease"},
		{"RERUN TAKEOVER_IN_TWO_STEPS", "&&!(lease))"},
		{"RERUN CLAIM_IGNORES_FINGERPRINT", "print=="},
		{"CLAIM_IGNORES_OWN_TOKEN", "token!=me"},
		{"COMPLETE_FORGETS", "(answer==me)))"},
		{"SETTLE_IGNORES_TOKEN", "!(effect)||early"},
		{"SETTLE_KEEPS_TOKEN", "(answer==me)"},
		{"RERUN REFUSAL_FORGETS_OTHERS", "!(effect)||early"},
		{"LEASES_NEVER_END", "rerun&&!(lease)"},
	})
}
