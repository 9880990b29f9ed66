package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

func crashScenarios() []scenario {
	needs := func(r *runner) string {
		switch {
		case r.crash == nil:
			return "there is no command that kills and starts the server"
		case r.api.Effects.Get == "" || !r.api.Effects.listed():
			return "the description has neither effects.where nor {item} in effects.get, so the effects of one key cannot be counted"
		}
		return ""
	}
	return []scenario{{
		id: "crash-once", promise: "P1", source: "practice",
		title: Text{"no key takes effect twice, although the server is killed under load", "負荷の中でサーバーが強制終了しても、同じキーの効果は 1 回だけ"},
		expected: Text{"1 created for each key that was answered with success, and at most 1 for every other",
			"成功の応答があったキーは 1 件、ほかのキーは高々 1 件作られる"},
		needs: needs, run: func(ctx context.Context, t *trial) { t.killed(ctx, crashOnce) },
	}, {
		id: "crash-acknowledged", promise: "P2", source: "practice",
		title: Text{"what was answered before the kill is there afterwards", "終了前に応答したものは終了後もある"},
		expected: Text{"a replay of each success that was read before, and 1 created for each",
			"終了前に受け取った成功はすべて再生され、それぞれ 1 件作られている"},
		needs: needs, run: func(ctx context.Context, t *trial) { t.killed(ctx, crashAcknowledged) },
	}, {
		id: "crash-no-limbo", promise: "P6", source: "practice",
		title: Text{"keys that were in progress do not stick", "実行中だったキーが塞がったままにならない"},
		expected: Text{"for each key whose request was cut off a definite answer within the time of recovery",
			"切断されたリクエストのキーには、回復時間内に確定した応答がある"},
		needs: needs, run: func(ctx context.Context, t *trial) { t.killed(ctx, crashNoLimbo) },
	}}
}

// crashed is what came of one load and kill. The scenarios of the level share it, for one kill is expensive.
type crashed struct {
	mark mark
	keys []*struck
	made map[string]int // of each item
	err  error          // why nothing can be said
}

// A struck is a key that was in use around the kill.
type struck struct {
	item, key string
	before    *answer  // a success that was read before the kill
	cut       bool     // a request had no answer
	answers   []answer // all that came
	last      answer   // after the retries
	again     answer   // once more after that
	waited    time.Duration
}

const (
	crashWorkers = 8
	crashRounds  = 3 // kills, if the ones before cut nothing off
)

// killed shares the kill, and lets check say what it shows.
func (t *trial) killed(ctx context.Context, check func(*trial, *crashed)) {
	t.curl = t.script().atOnceOwnKeys(t.slow(), 100) // and kill the server meanwhile
	if t.runner.crashed == nil {
		t.runner.crashed = t.killAndRetry(ctx)
	}
	c := t.runner.crashed
	if c.err != nil {
		t.blind(c.err)
		return
	}
	cut := 0
	for _, k := range c.keys {
		t.answers = append(t.answers, k.answers...)
		if k.cut {
			cut++
		}
	}
	if cut == 0 {
		t.blind(fmt.Errorf("no request was cut off in %d kills: make the server's work take longer, or describe a request.slow", crashRounds))
		return
	}
	t.created = 0
	for _, k := range c.keys {
		t.created += c.made[k.item]
	}
	check(t, c)
}

func crashOnce(t *trial, c *crashed) {
	for _, k := range c.keys {
		n := c.made[k.item]
		switch {
		case n > 1:
			t.fault("the key "+k.key, []string{fmt.Sprintf("%d created, not 1", n)})
		case n == 0 && k.last.success():
			t.fault("the key "+k.key, []string{fmt.Sprintf("answered %s in the end, and nothing was created", k.last)})
		}
	}
	t.shorten()
}

func crashAcknowledged(t *trial, c *crashed) {
	acknowledged := 0
	for _, k := range c.keys {
		if k.before == nil {
			continue
		}
		acknowledged++
		t.fault("the key "+k.key+", afterwards", k.again.replayFaults(*k.before))
		if n := c.made[k.item]; n == 0 {
			t.fault("the key "+k.key, []string{"its effect is lost"})
		}
	}
	t.shorten()
	if acknowledged == 0 {
		t.blind(errors.New("nothing was answered before the kill"))
	}
}

func crashNoLimbo(t *trial, c *crashed) {
	for _, k := range c.keys {
		if k.cut && (k.last.err != nil || k.last.inProgress() || k.last.status >= 500 && !k.last.marked) {
			t.fault("the key "+k.key, []string{fmt.Sprintf("still %s %v after its request was cut off%s", k.last,
				k.waited.Round(time.Second), k.last.detail())})
		}
	}
	t.shorten()
}

// shorten keeps some of many like faults.
func (t *trial) shorten() {
	const most = 3
	if n := len(t.faults); n > most {
		t.faults = append(t.faults[:most:most], fmt.Sprintf("and %d more", n-most))
	}
}

// killAndRetry puts load on the server, kills it meanwhile, and retries what had no answer.
func (t *trial) killAndRetry(ctx context.Context) *crashed {
	c := &crashed{}
	if c.mark, c.err = t.mark(ctx); c.err != nil {
		return c
	}
	for round := range crashRounds {
		keys, err := t.underLoad(ctx, round)
		if err != nil {
			c.err = err
			return c
		}
		t.retryAll(ctx, keys)
		c.keys = append(c.keys, keys...)
		if slices.ContainsFunc(keys, func(k *struck) bool { return k.cut }) {
			break
		}
	}
	c.made, c.err = t.madeOf(ctx, c)
	return c
}

// underLoad sends requests under keys of their own until the server has been killed and started again.
func (t *trial) underLoad(ctx context.Context, round int) ([]*struck, error) {
	var mu sync.Mutex
	var keys []*struck
	var served, down atomic.Int32
	warm := make(chan struct{})
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for worker := range crashWorkers {
		workers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-ctx.Done():
					return
				default:
				}
				k := &struck{item: fmt.Sprintf("%s-%d-%d-%d", t.item, round, worker, n), key: newKey()}
				a := t.send(ctx, t.message(fill(t.api.Request.Slow, k.item, 1), k.key))
				k.answers = append(k.answers, a)
				if a.success() && down.Load() == 0 {
					k.before = &a
				}
				k.cut = a.err != nil && !a.sent.IsZero()
				mu.Lock()
				if a.err == nil || k.cut {
					keys = append(keys, k)
				}
				mu.Unlock()
				if a.err != nil {
					return // what the server gets after it is started is not the question
				}
				if served.Add(1) == 2*crashWorkers {
					close(warm)
				}
			}
		})
	}
	idle := make(chan struct{})
	go func() { workers.Wait(); close(idle) }()
	select {
	case <-warm:
	case <-idle:
		if served.Load() == 0 {
			return nil, errors.New("the server does not answer")
		}
	}
	var err error
	mu.Lock()
	executes := slices.ContainsFunc(keys, func(k *struck) bool { return k.before != nil })
	mu.Unlock()
	if executes {
		err = t.crash(ctx)
	}
	down.Store(1)
	close(stop)
	<-idle
	switch {
	case !executes:
		return nil, errors.New("the server executes nothing, so it was not killed")
	case err != nil:
		return nil, fmt.Errorf("the command that kills and starts the server failed: %w", err)
	}
	return keys, t.back(ctx)
}

// back waits until the server answers again.
func (t *trial) back(ctx context.Context) error {
	deadline := time.Now().Add(t.recovery)
	for {
		a := t.get(ctx, t.address(fill(t.api.Effects.Get, url.QueryEscape(t.item), 1)))
		if a.err == nil {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("the server was not back %v after the command that kills and starts it", t.recovery)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// retryAll sends every key again until its answer is definite, and then once more.
func (t *trial) retryAll(ctx context.Context, keys []*struck) {
	var workers sync.WaitGroup
	slots := make(chan struct{}, crashWorkers)
	for _, k := range keys {
		workers.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			body := fill(t.api.Request.Slow, k.item, 1)
			k.last = k.answers[0]
			if k.before == nil {
				started := time.Now()
				k.last = t.settle(ctx, body, k.key, t.recovery)
				k.waited = time.Since(started)
				k.answers = append(k.answers, k.last)
			}
			k.again = t.settle(ctx, body, k.key, t.timeout)
			k.answers = append(k.answers, k.again)
		})
	}
	workers.Wait()
}

// madeOf counts the effects of each key.
func (t *trial) madeOf(ctx context.Context, c *crashed) (map[string]int, error) {
	if t.api.Effects.Where != "" {
		return t.effectsOf(ctx, t.api.Effects.Get, c.mark)
	}
	made := map[string]int{}
	for _, k := range c.keys {
		n, err := t.effects(ctx, k.item, c.mark)
		if err != nil {
			return nil, err
		}
		made[k.item] = n
	}
	return made, nil
}
