package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ichido-dev/ichido/client"
)

// A body that is not there yet, as that of a pipe, does not keep the caller longer than the context allows.
func TestABodyThatDoesNotComeEndsWithTheContext(t *testing.T) {
	for name, targets := range map[string]client.Targets{"in a field": local, "in the body": {"127.0.0.1": client.Square}} {
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		defer writer.Close()
		r := request(t, "POST", "http://127.0.0.1:1/", "").WithContext(ctx)
		r.Body, r.ContentLength = reader, -1
		ended := make(chan error, 1)
		go func() {
			_, err := newTransport(t, quick(targets)).RoundTrip(r)
			ended <- err
		}()
		if _, err := writer.Write([]byte("{")); err != nil { // it is being read
			t.Fatal(err)
		}
		cancel()
		select {
		case err := <-ended:
			var notDone *client.NotDoneError
			if !errors.As(err, &notDone) || !errors.Is(err, context.Canceled) || notDone.Stopped != client.StopContext {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: it hangs", name)
		}
	}
}

// Square's SDKs send the member always: an empty one is no key, and one beside it would be lost.
func TestAnEmptyMemberIsNoKey(t *testing.T) {
	for _, body := range []string{`{"idempotency_key":"","amount":1}`, `{"idempotency_key":null}`, `{"idempotency_key":7}`} {
		s := newServer(t, statuses(200))
		rt := newTransport(t, quick(client.Targets{"127.0.0.1": client.Square}))
		res, err := rt.RoundTrip(request(t, "POST", s.URL, body))
		if err == nil {
			res.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "idempotency_key") || s.sendings() != 0 {
			t.Errorf("%s: error %v, bodies %q", body, err, s.bodies)
		}
	}
}

// A caller who asks for gzip gets it; the verdict is that of what is in it.
func TestCompressedAnswersAreJudged(t *testing.T) {
	s := newServer(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n > 1 {
			w.WriteHeader(201)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(409)
		z := gzip.NewWriter(w)
		fmt.Fprint(z, `{"code":"in-progress"}`)
		z.Close()
	})
	r := request(t, "POST", s.URL, "x")
	r.Header.Set("Accept-Encoding", "gzip")
	res, _ := do(t, newTransport(t, quick(local)), r)
	if res.StatusCode != 201 || s.sendings() != 2 {
		t.Errorf("%s after %d sendings", res.Status, s.sendings())
	}
}

// An answer that cannot be read as it is encoded is not taken for a refusal if it may be a conflict.
func TestAConflictThatCannotBeReadIsUnknown(t *testing.T) {
	s := newServer(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Content-Encoding", "br")
		w.WriteHeader(409)
		w.Write([]byte{1, 2, 3})
	})
	res, err := newTransport(t, quick(local)).RoundTrip(request(t, "POST", s.URL, "x"))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if result, _ := client.ResultOf(res); result.Outcome != client.Unknown || !bytes.Equal(body, []byte{1, 2, 3}) {
		t.Errorf("%+v, %q", result, body)
	}
}

// A mismatch after a lost answer is no proof that nothing was done: what was sent before may look different to the server.
func TestAMismatchAfterALostAnswerIsUnknown(t *testing.T) {
	base := &answers{give: []func(*http.Request) (*http.Response, error){status(502), status(422)}}
	config := quick(client.Targets{"api.example.com": {Header: "Idempotency-Key", Judge: func(a client.Answer) client.Judgement {
		if a.Status == 422 {
			return client.Judgement{Verdict: client.Mismatch}
		}
		return client.Judgement{}
	}}})
	config.Base = base
	res := newTransport(t, config).Send(request(t, "POST", "https://api.example.com/", "x"), client.NewOperation())
	res.Response.Body.Close()
	if res.Outcome != client.Unknown || res.Retryable || res.Verdict != client.Mismatch {
		t.Errorf("%+v", res)
	}
}

// Where a request is redirected to it is still the operation that was sent before.
func TestARedirectAfterALostAnswerIsUnknown(t *testing.T) {
	base := &answers{give: []func(*http.Request) (*http.Response, error){
		status(502), status(307, "Location", "https://api.example.com/there"), status(400),
	}}
	config := quick(client.Targets{"api.example.com": client.Ichido})
	config.Base = base
	res, _ := do(t, newTransport(t, config), request(t, "POST", "https://api.example.com/", "x"))
	if result, ok := client.ResultOf(res); !ok || res.StatusCode != 400 || result.Outcome != client.Unknown {
		t.Errorf("%s: %+v", res.Status, result)
	}
}

// "As long as it takes" is no overflow.
func TestTheLongestDelay(t *testing.T) {
	config := *quick(nil)
	config.MaxDelay, config.TotalTimeout = math.MaxInt64, -1
	base, res, err := try(t, config, t.Context(), status(503), status(200))
	if err != nil || res.StatusCode != 200 || len(base.at) != 2 {
		t.Errorf("%v, %v after %d attempts", res, err, len(base.at))
	}
}

// Entries that would never count are refused, and a port that goes without saying need not be said.
func TestPortsOfTargets(t *testing.T) {
	for entry, addresses := range map[string][]string{
		"*.example.com:8443":   {"https://api.example.com:8443/"},
		"api.example.com:443":  {"https://api.example.com/", "https://api.example.com:443/"},
		"api.example.com:80":   {"http://api.example.com/"},
		"*.example.com":        {"https://a.b.example.com:99/"},
		"api.example.com:8443": {"https://API.Example.com:8443/"},
	} {
		rt, err := client.NewTransport(&client.Config{Targets: client.Targets{entry: client.Ichido}})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, address := range addresses {
			if _, err := rt.Check(request(t, "POST", address, ""), client.Operation{}); err != nil {
				t.Errorf("%s: %v", entry, err)
			}
		}
		for _, address := range []string{"https://example.com/", "https://api.example.com.evil.org/", "https://evilexample.com:8443/"} {
			if _, err := rt.Check(request(t, "POST", address, ""), client.Operation{}); err == nil {
				t.Errorf("%s fits %s", entry, address)
			}
		}
	}
}

// The errors are there under http.Client's, too.
func TestErrorsUnderHTTPClient(t *testing.T) {
	config := quick(local)
	config.Attempts = 2
	_, err := (&http.Client{Transport: newTransport(t, config)}).Do(request(t, "POST", "http://127.0.0.1:1/?card=4242", "x"))
	var outer *url.Error
	var notDone *client.NotDoneError
	if !errors.As(err, &outer) || !errors.As(err, &notDone) || strings.Contains(notDone.Error(), "4242") || strings.Contains(err.Error(), notDone.Operation.Key) {
		t.Errorf("%v", err)
	}
}
