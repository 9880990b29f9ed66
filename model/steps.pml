/*
 * An operation of two steps in lease mode: attempts of its client and of those who finish it without the client, a
 * resolver, a person who deletes the record, a clock, and a network that holds up what keeps a step. The first step calls a
 * provider, which takes each derived key once; the second writes a row in a transaction. With -DTX_FIRST it is the other
 * way round. docs/design/008-steps-model.md ties it to the code; lease.pml goes further into what has no steps.
 *
 * The policy is Hold, with -DRERUN Rerun. The other macros are limits and mistakes; steps_test.go says what has to be
 * found with each of them.
 */

#ifdef RERUN
#define RERUNS true
#else
#define RERUNS false
#endif

#define LIMIT 2 /* MaxAttempts */
#define STEPS 2

#ifdef TX_FIRST
#define IS_TX(number) (number == 1)
#else
#define IS_TX(number) (number == 2)
#endif
#define IS_CALL(number) (number <= STEPS && !IS_TX(number))

/* The record. The number of an attempt is its token too. */

mtype = { absent, incomplete, completed };

mtype state = absent;
byte token;
bool lease;    /* it still runs */
bool resumes;  /* steps have begun */
byte kept;     /* so many steps */
byte attempts;
byte reserved; /* to this attempt, which finishes it without the client */

/* What the properties speak of. The store does not know it; the resolver knows the effects. */

byte charges;      /* effects at the provider; stops at 2 */
byte seen;         /* derived keys that it knows, a bit each */
byte rows;         /* that were written in this life of the record; stops at 2 */
byte begun;        /* attempts in this life */
bool stepping;     /* an attempt has heard that steps have begun, in this life */
bool told_unknown; /* somebody was told that the key is unknown, in this life */
bool lapsed[4];    /* a lease of this attempt has ended without an answer */
byte delayed[4];   /* the step of this attempt whose statement is on its way, although its connection is lost */
bool came;         /* there has been a claim */
byte drivers;      /* attempts that will finish the operation if it is abandoned */

inline free_key() {
	state = absent; token = 0; lease = false; resumes = false; attempts = 0; reserved = 0;
#ifndef STEPS_OUTLIVE_THE_RECORD
	kept = 0;
#endif
	begun = 0; stepping = false; told_unknown = false
}

/*
 * The statements of the store. Each is called in an atomic sequence.
 */

#define AGAIN ((RERUNS || resumes) && attempts < LIMIT)

#ifdef LIMIT_UNCHECKED
#define MAY_TAKE_OVER (RERUNS || resumes)
#else
#define MAY_TAKE_OVER AGAIN
#endif

inline take(a) {
	assert(state == absent || state == incomplete && !lease); /* P1 */
	assert(!told_unknown); /* P6 */
	assert(begun < LIMIT); /* P6 */
	begun++;
#ifndef ATTEMPTS_UNCOUNTED
	attempts++;
#endif
#ifdef TAKEOVER_FORGETS_STEPS
	kept = 0;
#endif
	state = incomplete; token = a; lease = true; reserved = 0
}

mtype = { attempt, record, conflict, unknown }; /* what Begin returns */

inline claim(a, got) {
	came = true;
	if
	:: state == absent -> take(a); got = attempt
	:: state == completed -> got = record
	:: state == incomplete && lease && token == a ->
#ifdef REPEATED_CLAIM_COUNTS
		attempts = (attempts < LIMIT -> attempts + 1 : LIMIT);
#endif
		got = attempt
	:: state == incomplete && lease && token != a -> got = conflict
	:: state == incomplete && !lease && MAY_TAKE_OVER -> take(a); got = attempt
	:: state == incomplete && !lease && !MAY_TAKE_OVER ->
		assert(begun == LIMIT || !stepping && !RERUNS); /* P6: else it goes on */
		got = unknown; told_unknown = true
	fi
}

#define HOLDS(a) (state == incomplete && token == a && lease)

#if defined(KEEP_IGNORES_TOKEN)
#define MAY_KEEP(a) (state == incomplete && lease)
#elif defined(KEEP_IGNORES_LEASE)
#define MAY_KEEP(a) (state == incomplete && token == a)
#else
#define MAY_KEEP(a) HOLDS(a)
#endif

#ifdef KEEP_IGNORES_NUMBER
#define IS_NEXT(number) true
#else
#define IS_NEXT(number) (number == kept + 1)
#endif

/* An attempt that changes the record has it, and has had it all the time. */
inline must_hold(a) {
	assert(state == incomplete && token == a && lease && !lapsed[a]); /* P1 */
	assert(!told_unknown) /* P6 */
}

inline begin_steps(a, held) {
	if
	:: HOLDS(a) ->
		must_hold(a);
#ifndef MARKED_BY_THE_FIRST_KEPT
		resumes = true;
#endif
		held = true
	:: !HOLDS(a) -> held = false
	fi
}

inline write_row() {
	rows = (rows < 2 -> rows + 1 : 2);
	assert(rows == 1) /* P1 */
}

inline store_step(a, number) {
	must_hold(a);
	assert(number == kept + 1); /* in order */
	resumes = true; kept = number
}

inline keep(a, number, held) {
	if
	:: MAY_KEEP(a) && IS_NEXT(number) -> store_step(a, number); held = true
	:: MAY_KEEP(a) && !IS_NEXT(number) -> held = (number <= kept) /* again, which does no harm */
	:: !MAY_KEEP(a) -> held = false
	fi
}

/* The end of a TxStep: the COMMIT keeps the step and writes the row, or neither. */
inline commit(a, number, held) {
	if
	:: MAY_KEEP(a) && IS_NEXT(number) -> store_step(a, number); write_row(); held = true
	:: else -> held = false
	fi
}

#ifdef COMPLETE_IGNORES_LEASE
#define MAY_COMPLETE(a) (state == incomplete && token == a)
#else
#define MAY_COMPLETE(a) HOLDS(a)
#endif

inline complete(a) {
	if
	:: MAY_COMPLETE(a) ->
		must_hold(a);
		assert(kept == STEPS && charges == 1 && rows == 1); /* P1: all of it, and once */
		state = completed; lease = false
	:: else
	fi
}

/* Abandon without a cause. It speaks of this attempt only: where there was one before, it frees nothing. */
inline refuse(a) {
	if
	:: HOLDS(a) && attempts == 1 ->
		must_hold(a);
		assert(kept == 0 && rows == 0); /* P1: what is kept is not forgotten */
		free_key()
	:: else -> fail(a)
	fi
}

/* Abandon with a cause. */
inline fail(a) {
	if
	:: HOLDS(a) -> must_hold(a); lease = false; lapsed[a] = true
	:: else
	fi
}

mtype = { done, not_done };

inline settle(about, says) {
	if
	:: state == incomplete && !lease && token == about ->
		if
		:: says == done -> state = completed; token = 0; told_unknown = false
		:: says == not_done -> free_key()
		fi
	:: else
	fi
}

/* By hand, or because the retention is over. Whatever happens under the key from now on is another operation. */
inline delete() {
	if
	:: state == completed || state == incomplete && !lease -> rows = 0; free_key()
	:: else
	fi
}

/* What Abandoned returns, and reserves: that is another's for a while. */
#define ABANDONED (state == incomplete && !lease && AGAIN && reserved == 0)

/*
 * Who calls them.
 */

/* The derived key, as a bit. */
#ifdef KEY_OF_THE_ATTEMPT
#define DERIVED(a) (1 << a)
#else
#define DERIVED(a) 1
#endif

#ifdef PROVIDER_KNOWS_NO_KEYS
#define KNOWN(a) false
#else
#define KNOWN(a) (seen & DERIVED(a))
#endif

inline call(a) {
#ifdef LATE_OWNERS_CALL_NOBODY
	assert(HOLDS(a));
#endif
	if
	:: KNOWN(a)
	:: !KNOWN(a) ->
		seen = seen | DERIVED(a);
		charges = (charges < 2 -> charges + 1 : 2);
		assert(charges == 1) /* once, as far as the provider is idempotent */
	fi
}

/* Whether a refusal says that nothing was done. */
#if defined(REFUSAL_FORGETS_STEPS)
#define NOTHING_KEPT true
#elif defined(REFUSAL_TRUSTS_ERRORS)
#define NOTHING_KEPT (next <= 1)
#else
#define NOTHING_KEPT (next <= 1 && !unsure)
#endif

proctype Attempt(byte me; bool finishes) {
	mtype got;
	byte next;   /* the step that comes next */
	byte before; /* steps that were kept when it began */
	bool look = true; /* what is kept is to be read, before a step runs */
	bool did;    /* the next step has had its effect */
	bool unsure; /* a step may be kept without that the attempt knows */
	bool held;

#ifdef STEPS_READ_BEFORE_THE_CLAIM
	next = kept + 1; look = false;
#endif
	/* The first claim is that of the first attempt: tokens are but names. */
end_first:
	me == 1 || came;

	/* Begin. Who finishes operations reserves one first. An answer that is lost, or no attempt, is asked for again. */
end_begin:
	if
	:: !finishes
#ifdef RESERVED_IN_TWO_STEPS
	:: finishes && ABANDONED -> atomic { assert(reserved == 0); reserved = me }
#else
	:: atomic { finishes && ABANDONED -> reserved = me }
#endif
#ifdef FINISHER_IGNORES_LEASES
	:: atomic { finishes && state == incomplete && AGAIN -> take(me) }
#endif
	fi;
	atomic {
		if
		:: !lapsed[me] -> claim(me, got)
		:: drivers = drivers - finishes; goto gone
		fi;
		if
		:: true -> got = 0; goto end_begin
		:: got == attempt -> got = 0; before = kept; drivers = drivers - finishes
		fi
	};

	/* The work. A step that has failed may be tried again. */
	do
	:: atomic {
		look -> begin_steps(me, held);
		if
		:: true
		:: held -> stepping = true; look = false; next = kept + 1; unsure = unsure && kept == 0
		fi;
		held = false
	}
	:: atomic {
		!look && !did && IS_CALL(next) -> assert(next > before); /* what was kept before is not run */
		did = true;
#ifdef KEPT_BEFORE_THE_EFFECT
		keep(me, next, held); held = false; unsure = true
#else
		call(me)
#endif
	}
	:: atomic {
		did ->
#ifdef KEPT_BEFORE_THE_EFFECT
		call(me); did = false; next++
#else
		if
		:: keep(me, next, held); did = false;
			if
			:: held -> unsure = false; next++
			:: !held
			fi;
			held = false
		:: delayed[me] == 0 -> delayed[me] = next; unsure = true /* and sends it again */
		fi
#endif
	}
	:: atomic {
		!look && !did && IS_TX(next) -> assert(next > before);
#ifdef ROW_COMMITTED_APART
		write_row(); did = true
#else
		if
		:: commit(me, next, held);
			if
			:: held -> unsure = false; next++
			:: !held -> look = true /* why? */
			fi;
			held = false
		:: delayed[me] == 0 -> delayed[me] = next; unsure = true;
#ifdef UNKNOWN_COMMIT_IS_KEPT
			next++
#else
			look = true /* is it kept? */
#endif
		fi
#endif
	}
	:: atomic { next > STEPS -> complete(me); break }
	:: atomic { NOTHING_KEPT -> refuse(me); break }
	:: atomic { fail(me); break }
	:: break /* it has died */
	od;
gone:
	atomic { next = 0; before = 0; look = false; did = false; unsure = false }
}

#ifdef LEASES_NEVER_END
#define LEASES_END false
#else
#define LEASES_END true
#endif

#ifdef RESERVATIONS_NEVER_END
#define RESERVATIONS_END false
#else
#define RESERVATIONS_END true
#endif

proctype Clock() {
end:	do
	:: atomic { state == incomplete && lease && LEASES_END -> lease = false; lapsed[token] = true }
	:: atomic { reserved != 0 && RESERVATIONS_END -> reserved = 0 }
	od
}

/* What was on its way is done, if it still may be. */
inline arrive(a) {
	if
	:: IS_TX(delayed[a]) -> commit(a, delayed[a], held)
	:: !IS_TX(delayed[a]) -> keep(a, delayed[a], held)
	fi;
	held = false; delayed[a] = 0
}

proctype Network() {
	bool held;
end:	do
	:: atomic { delayed[1] != 0 -> arrive(1) }
	:: atomic { delayed[2] != 0 -> arrive(2) }
	:: atomic { delayed[3] != 0 -> arrive(3) }
	od
}

#ifdef ASKED_ABOUT_WHAT_RESUMES
#define ASKED_ABOUT true
#else
#define ASKED_ABOUT (!AGAIN)
#endif

/* What it says is true at that moment. */
proctype Resolver() {
	byte about;
	mtype says;
end:	do
	:: atomic {
		state == incomplete && !lease && ASKED_ABOUT -> told_unknown = true;
		if
#ifndef RESOLVER_KNOWS
		:: true /* still unknown */
#endif
		:: about = token;
			if
			:: charges != 0 || rows != 0 -> says = done
			:: charges == 0 && rows == 0 -> says = not_done
			fi;
			goto answered
		fi
	}
	od;
answered:
	atomic { settle(about, says); about = 0; says = 0; goto end }
}

proctype Person() {
	if
	:: atomic { delete() }
	:: true
	fi
}

/* Nobody is at it, and somebody could be. */
#define NO_LIMBO (state != incomplete || !lease && AGAIN && drivers == 0)

init {
	atomic {
		run Attempt(1, false);
		if
		:: drivers = 1; run Attempt(2, false)
		:: drivers = 2; run Attempt(2, true)
		fi;
		run Attempt(3, true);
		run Clock(); run Network(); run Resolver();
#ifndef FAIRLY
		run Person() /* a deletion would only help */
#endif
	};
	timeout -> assert(NO_LIMBO) /* P6 */
}

#ifdef FAIRLY
ltl p6 { []<>NO_LIMBO }
#endif
