package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A provider takes payments: ichido fakepay, or anything that has the same POST /charges.
type provider struct {
	url    string // without a slash at its end
	client *http.Client
}

// chargeTimeout bounds one request to the provider.
const chargeTimeout = 20 * time.Second

func newProvider(location string) (provider, error) {
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return provider{}, usageError(errors.New("--pay (ICHIDO_PAY): give the URL of a payment provider, like http://localhost:8081"))
	}
	return provider{strings.TrimSuffix(location, "/"), &http.Client{Timeout: chargeTimeout}}, nil
}

// A payment is what came of a charge.
type payment struct {
	ID       string `json:"id,omitempty"` // the provider's name of it
	Declined bool   `json:"declined,omitempty"`
}

// A chargeRequest is the body of POST /charges.
type chargeRequest struct {
	Amount    int64  `json:"amount"` // in yen
	Card      string `json:"card"`
	Reference string `json:"reference"` // what the payment is for, in words of the one who asks for it
}

// errPayment says that the provider gave no usable answer. The charge may be there.
var errPayment = errors.New("the payment provider cannot be reached, or failed")

// charge asks for a payment under a key, a few times, since to ask again under the same key does no harm. It returns an
// error unless the provider gave a definite answer.
func (p provider) charge(ctx context.Context, key string, c chargeRequest) (payment, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return payment{}, err
	}
	for pause := 50 * time.Millisecond; ; pause *= 3 {
		paid, again, err := p.chargeOnce(ctx, key, body)
		if err == nil || !again || pause > time.Second/2 {
			return paid, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return payment{}, fmt.Errorf("%w: %w", errPayment, context.Cause(ctx))
		}
	}
}

// chargeOnce sends one request. again says that another may have more luck at once.
func (p provider) chargeOnce(ctx context.Context, key string, body []byte) (paid payment, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/charges", bytes.NewReader(body))
	if err != nil {
		return payment{}, false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", `"`+key+`"`)
	response, err := p.client.Do(r)
	if err != nil {
		return payment{}, ctx.Err() == nil, fmt.Errorf("%w: %w", errPayment, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	switch {
	case err != nil:
		return payment{}, ctx.Err() == nil, fmt.Errorf("%w: %w", errPayment, err)
	case response.StatusCode == http.StatusPaymentRequired:
		return payment{Declined: true}, false, nil
	case response.StatusCode != http.StatusCreated:
		return payment{}, response.StatusCode >= 500, fmt.Errorf("%w: it answered %s", errPayment, response.Status)
	}
	if err := json.Unmarshal(text, &paid); err != nil || paid.ID == "" || paid.Declined {
		return payment{}, false, fmt.Errorf("%w: its answer has no id", errPayment)
	}
	return paid, false, nil
}
