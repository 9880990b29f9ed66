/*
 * Lease mode of one key: two attempts, a resolver, a person who settles by hand, and a clock that ends leases.
 * docs/design/007-lease-model.md ties it to the code.
 *
 * The policy is Hold, with -DRERUN Rerun, with -DMIXED Rerun for the first attempt and Hold for the second. The
 * other macros are limits and mistakes; lease_test.go says what has to be found with each of them.
 */

#if defined(RERUN)
#define RERUNS(a) true
#elif defined(MIXED)
#define RERUNS(a) (a == 1)
#else
#define RERUNS(a) false
#endif

/* The record. The number of an attempt is its token too, and names the answer that it stores. */

mtype = { absent, incomplete, completed };

mtype state = absent;
byte token;
bool lease; /* it still runs */
bool rerun;
byte attempts; /* stops at 2 */
byte print; /* fingerprint */
byte answer;

#define RESOLVED 3 /* the answer of a settlement */

/* The second attempt may be for another request under the same key. */
byte print2;
#define PRINT(a) (a == 1 -> 0 : print2)

/*
 * What the properties speak of. The store does not know it. The resolver knows "effect", and an attempt how long
 * ago it sent its first claim.
 */

byte completions;  /* in this life of the record; stops at 2 */
byte acknowledged; /* the answer that a client has seen, in this life */
bool told_unknown; /* somebody was told that the key is unknown, in this life */
bool effect;       /* there was one, and nobody has deleted the record since */
bool working[3];   /* this attempt may still have its effect */
bool lapsed[3];    /* a lease of this attempt has ended without an answer */
bool early;        /* the key was freed while an attempt could still have its effect, or after it had */

/* Where a promise ends. With these macros it is claimed without its limit. */

#ifdef SETTLEMENTS_ARE_FINAL
#define EARLY false
#else
#define EARLY early
#endif

#define NOBODY_WORKS (!working[1] && !working[2])

inline free_key() {
	state = absent; token = 0; lease = false; rerun = false; attempts = 0; print = 0; answer = 0;
	completions = 0; acknowledged = 0; told_unknown = false
}

inline store_answer(a) {
	completions = (completions < 2 -> completions + 1 : 2);
	assert(completions == 1); /* P1 */
	state = completed; answer = a; lease = false; rerun = false; told_unknown = false
}

/*
 * The statements of the store. Each is called in an atomic sequence.
 */

#ifdef CLAIM_IGNORES_FINGERPRINT
#define MAY_TAKE_OVER(a) (rerun && RERUNS(a))
#else
#define MAY_TAKE_OVER(a) (rerun && RERUNS(a) && print == PRINT(a))
#endif

#ifdef CLAIM_IGNORES_OWN_TOKEN
#define OWN(a) false
#else
#define OWN(a) (token == a)
#endif

inline take(a) {
	assert(state == absent || print == PRINT(a)); /* P4 */
	assert(state == absent || state == incomplete && !lease); /* P1 */
	assert(!told_unknown); /* P6 */
	state = incomplete; token = a; lease = true; rerun = RERUNS(a); print = PRINT(a);
	attempts = (attempts < 2 -> attempts + 1 : 2)
}

mtype = { attempt, record, conflict, unknown }; /* what Begin returns */

inline claim(a, got) {
	if
	:: state == absent -> take(a); got = attempt
	:: state == completed -> got = record
	:: state == incomplete && lease && OWN(a) -> got = attempt
	:: state == incomplete && lease && !OWN(a) -> got = conflict
	:: state == incomplete && !lease && MAY_TAKE_OVER(a) -> take(a); got = attempt
	:: state == incomplete && !lease && !MAY_TAKE_OVER(a) -> got = unknown
	fi
}

#if defined(NO_FENCING)
#define HOLDS(a) (state != absent)
#elif defined(LEASE_UNCHECKED)
#define HOLDS(a) (state == incomplete && token == a)
#else
#define HOLDS(a) (state == incomplete && token == a && lease)
#endif

#ifdef ABANDON_IGNORES_TOKEN
#define MAY_ABANDON(a) (state == incomplete && lease)
#else
#define MAY_ABANDON(a) HOLDS(a)
#endif

#ifdef COMPLETE_FORGETS
#define STORED_BY(a) false
#else
#define STORED_BY(a) (state == completed && token == a)
#endif

/* An attempt that changes the record has it, and has had it all the time. */
inline must_hold(a) {
#ifndef NO_FENCING
	assert(state == incomplete && token == a && lease && !lapsed[a]); /* P1 */
#endif
	assert(!told_unknown) /* P6 */
}

inline renew(a) {
	if
	:: HOLDS(a) -> must_hold(a); lease = true
	:: !HOLDS(a)
	fi
}

inline complete(a, held) {
	if
	:: STORED_BY(a) -> held = true
	:: !STORED_BY(a) && HOLDS(a) -> must_hold(a); store_answer(a); held = true
	:: !STORED_BY(a) && !HOLDS(a) -> held = false
	fi
}

#ifdef REFUSAL_FORGETS_OTHERS
#define FIRST true
#else
#define FIRST (attempts == 1)
#endif

/* Abandon without a cause. It speaks of this attempt only: where there was one before, it frees nothing. */
inline refuse(a) {
	if
	:: MAY_ABANDON(a) && FIRST ->
		must_hold(a);
		assert(acknowledged == 0); /* P3 */
		assert(!effect || EARLY); /* P1 */
		early = early || effect || !NOBODY_WORKS;
		free_key()
	:: MAY_ABANDON(a) && !FIRST -> must_hold(a); lease = false; lapsed[a] = true
	:: !MAY_ABANDON(a)
	fi
}

/* Abandon with a cause. */
inline fail(a) {
	if
	:: MAY_ABANDON(a) -> must_hold(a); lease = false; lapsed[a] = true
	:: !MAY_ABANDON(a)
	fi
}

#ifdef SETTLE_IGNORES_TOKEN
#define MAY_SETTLE(about) (state == incomplete && !lease)
#else
#define MAY_SETTLE(about) (state == incomplete && !lease && token == about)
#endif

inline settle_done(about) {
	if
	:: MAY_SETTLE(about) ->
		store_answer(RESOLVED);
#ifndef SETTLE_KEEPS_TOKEN
		token = 0
#endif
	:: else
	fi
}

inline settle_not_done(about, final) {
	if
	:: MAY_SETTLE(about) ->
		early = early || !final;
		assert(acknowledged == 0); /* P3 */
		assert(!effect || EARLY); /* P1 */
		free_key()
	:: else
	fi
}

/* By hand, or because the retention is over. Whatever happens under the key from now on is another operation. */
inline delete() {
	if
	:: state == completed || state == incomplete && !lease ->
		early = !NOBODY_WORKS;
		effect = false;
		free_key()
	:: else
	fi
}

/*
 * Who calls them.
 */

#ifdef CLAIM_ANY_TIME
#define MAY_CLAIM(a) true
#else
#define MAY_CLAIM(a) (!lapsed[a])
#endif

mtype = { nothing, completion, refusal, failure };

proctype Attempt(byte me) {
	mtype got, sent = nothing;
	bool held, did;

	/* Begin. An answer that is lost is asked for again, and so is one that is no attempt. */
	do
	:: atomic {
		MAY_CLAIM(me) -> claim(me, got);
		if
		:: true
		:: got == attempt ->
			working[me] = true;
			assert(RERUNS(me) || !working[3 - me] || EARLY); /* P1 */
			break
		:: got == record && print == PRINT(me) ->
			assert(acknowledged == 0 || acknowledged == answer); /* P3 */
			acknowledged = answer
		:: got == unknown && print == PRINT(me) ->
			told_unknown = true
		:: got == conflict -> assert(token != me)
		fi;
		got = 0
	}
#ifdef TAKEOVER_IN_TWO_STEPS
	:: MAY_CLAIM(me) && state == incomplete && !lease && MAY_TAKE_OVER(me) -> atomic { take(me); working[me] = true; break }
#endif
	:: goto gone
	od;
	got = 0;

	/* The work and the heartbeat. A renewal that is refused cancels the work, which may not notice. */
	do
	:: atomic { renew(me) }
	:: atomic { fail(me) } /* at Shutdown the lease is handed back */
	:: atomic {
		!did -> did = true; working[me] = false;
		assert(RERUNS(me) || !effect || EARLY); /* P1 */
		effect = true
	}
	:: break
	:: goto gone
	od;
	working[me] = false;

	if
	:: sent = completion
	:: !did -> sent = refusal
	:: sent = failure
	fi;
	did = false;
	do
	:: atomic {
		sent == completion -> complete(me, held);
		if
		:: true
		:: held -> assert(answer == me); acknowledged = me; goto gone
		:: !held -> assert(!(state == completed && answer == me)); goto gone
		fi;
		held = false
	}
	:: atomic { sent == refusal -> refuse(me) }
	:: atomic { sent == failure -> fail(me) }
	:: goto gone
	od;

	/* It has ended or crashed. What it sent may come late, or twice. */
gone:
	working[me] = false; did = false; got = 0;
	do
	:: atomic { MAY_CLAIM(me) -> claim(me, got); got = 0 }
	:: atomic { sent == completion -> complete(me, held); held = false }
	:: atomic { sent == refusal -> refuse(me) }
	:: atomic { sent == failure -> fail(me) }
	:: break
	od
}

#ifdef LEASES_NEVER_END
#define LEASES_END false
#else
#define LEASES_END true
#endif

proctype Clock() {
end:	do
	:: atomic { state == incomplete && lease && LEASES_END -> lease = false; lapsed[token] = true }
	od
}

/* What the outside says is true at that moment, and final if nobody works. */
mtype = { done, not_done };

inline ask(about, says, final) {
	about = token;
	final = NOBODY_WORKS;
	if
	:: effect -> says = done
	:: !effect -> says = not_done
	fi
}

inline settle(about, says, final) {
	if
	:: says == done -> settle_done(about)
	:: says == not_done -> settle_not_done(about, final)
	fi;
	about = 0; says = 0; final = false
}

/* A route that asks a resolver has the policy Hold by now; its records may be of before. */
#ifdef MIXED
#define ASKED_ABOUT true
#else
#define ASKED_ABOUT (!rerun)
#endif

proctype Resolver() {
	byte about;
	mtype says;
	bool final;
end:	do
	:: atomic {
		state == incomplete && !lease && ASKED_ABOUT -> told_unknown = true;
		if
#ifndef RESOLVER_KNOWS
		:: true /* still unknown */
#endif
		:: ask(about, says, final); goto answered
		fi
	}
	od;
answered:
	atomic { settle(about, says, final); goto end }
}

proctype Person() {
	byte about;
	mtype says;
	bool final;
	if
	:: atomic { state == incomplete && !lease -> ask(about, says, final) };
	   atomic { settle(about, says, final) }
	:: atomic { delete() }
	:: true
	fi
}

#define NO_LIMBO (state != incomplete || rerun && !lease)

init {
	atomic {
		if
		:: print2 = 0
		:: print2 = 1
		fi;
		run Attempt(1); run Attempt(2); run Clock(); run Resolver(); run Person()
	};
	timeout -> assert(NO_LIMBO) /* P6 */
}

#ifdef RESOLVER_KNOWS
ltl p6 { []<>NO_LIMBO }
#endif
