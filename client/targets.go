package client

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// uuidPattern is a UUID in its usual form.
const uuidPattern = `[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}`

// What APIs do with keys. Each has its source; the recorded exchanges in testdata/targets show each of its rules.
var (
	// Ichido is a server that uses ichido. The codes of its problems tell what to do.
	Ichido = Target{
		Name: "ichido", Header: "Idempotency-Key", Quoted: true, MaxLength: 255, Retention: 24 * time.Hour,
		Judge:  judgeIchido,
		Source: "https://github.com/ichido-dev/ichido/blob/main/docs/problems.md",
	}
	// Draft07 is a server that follows draft-ietf-httpapi-idempotency-key-header-07, an expired Internet-Draft: 409 is in
	// progress.
	Draft07 = Target{
		Name: "draft-07", Header: "Idempotency-Key", Quoted: true,
		Judge:  judgeConflict(InProgress),
		Source: "https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07#section-2.7",
	}
	// Stripe is Stripe's API v1. It keeps failures too, and marks replays.
	Stripe = Target{
		Name: "Stripe", Header: "Idempotency-Key", Methods: []string{http.MethodPost}, MaxLength: 255, Retention: 24 * time.Hour,
		Judge:  judgeStripe,
		Source: "https://docs.stripe.com/api/idempotent_requests, https://docs.stripe.com/error-low-level",
	}
	// PayPal is PayPal's REST API. How long it remembers a key, and the length of keys, differ between its APIs: the
	// shortest time is taken, and the length of orders v2.
	PayPal = Target{
		Name: "PayPal", Header: "PayPal-Request-Id", Methods: []string{http.MethodPost}, MaxLength: 108, Retention: 3 * time.Hour,
		Judge:  judgePayPal,
		Source: "https://developer.paypal.com/api/rest/reference/idempotency/",
	}
	// Adyen is Adyen's API. Keys are not shared between its regions: a request must go to the same one again.
	Adyen = Target{
		Name: "Adyen", Header: "Idempotency-Key", Methods: []string{http.MethodPost}, MaxLength: 64, Retention: 7 * 24 * time.Hour,
		Judge:  judgeAdyen,
		Source: "https://docs.adyen.com/development-resources/api-idempotency/",
	}
	// Square is Square's API. The key is a member of the body. 45 characters is the least of its limits.
	Square = Target{
		Name: "Square", Members: []string{"idempotency_key"}, Methods: []string{http.MethodPost, http.MethodPut}, MaxLength: 45,
		Judge:  judgeSquare,
		Source: "https://developer.squareup.com/docs/build-basics/common-api-patterns/idempotency",
	}
	// GoCardless is GoCardless's API. A key that was used before gets 409 with the id of what it made, and nothing is
	// replayed: read it, by Result.Resource.
	GoCardless = Target{
		Name: "GoCardless", Header: "Idempotency-Key", Methods: []string{http.MethodPost},
		Judge:  judgeGoCardless,
		Source: "https://developer.gocardless.com/api-reference/#making-requests-idempotency-keys, https://gocardless.com/blog/idempotency-keys/",
	}
	// PayJP is PAY.JP's API v2: declare it as api.pay.jp/v2. Its 409 is in progress or a mismatch.
	PayJP = Target{
		Name: "PAY.JP v2", Header: "Idempotency-Key", Methods: []string{http.MethodPost, http.MethodPut, http.MethodPatch},
		MaxLength: 255, Pattern: `[A-Za-z0-9_-]+`, Format: "made of letters, digits, - and _",
		Judge:  judgePayJP,
		Source: "https://docs.pay.jp/v2/guide/developers/idempotency",
	}
	// KOMOJU is KOMOJU's API. It remembers a key for at most 24 hours; no least time is promised.
	KOMOJU = Target{
		Name: "KOMOJU", Header: "X-KOMOJU-IDEMPOTENCY", Methods: []string{http.MethodPost}, MaxLength: 100, Retention: 24 * time.Hour,
		Judge:  judgeConflict(InProgress),
		Source: "https://doc.komoju.com/reference/idempotency",
	}
	// LINE is LINE's Messaging API. Its 409 says that the message was accepted before: that is a success, and
	// Result.Resource is the id of the request that was. Replies take no retry key: declare api.line.me/v2/bot/message/push
	// and the like, not the host.
	LINE = Target{
		Name: "LINE", Header: "X-Line-Retry-Key", Methods: []string{http.MethodPost}, Pattern: uuidPattern, Format: "a hexadecimal UUID",
		Retention: 24 * time.Hour,
		Judge:     judgeLINE,
		Source:    "https://developers.line.biz/en/docs/messaging-api/retrying-api-request/",
	}
	// Mangopay is Mangopay's API. A key that was used before gets 409, also after a failure, and nothing is replayed: what
	// the first sending got is at Result.Resource, below the path of the client.
	Mangopay = Target{
		Name: "Mangopay", Header: "Idempotency-Key", Methods: []string{http.MethodPost}, MinLength: 16, MaxLength: 36,
		Pattern: `[A-Za-z0-9-]+`, Format: "made of letters, digits and -", Retention: 24 * time.Hour,
		Judge:  judgeMangopay,
		Source: "https://docs.mangopay.com/api-reference/overview/idempotency",
	}
	// AmazonPay is Amazon Pay's API v2. A UUID is too long for it: keys are 32 hexadecimal digits.
	AmazonPay = Target{
		Name: "Amazon Pay", Header: "X-Amz-Pay-Idempotency-Key", Methods: []string{http.MethodPost}, MaxLength: 32,
		Pattern: `[A-Za-z0-9_-]+`, Format: "made of letters, digits, - and _", NewKey: newHex32,
		Judge:  judgeAmazonPay,
		Source: "https://developer.amazon.com/docs/amazon-pay-api-v2/idempotency.html",
	}
	// AWS is for AWS APIs with client tokens. Their requests are signed, so that the caller, or the SDK, must set the token;
	// one SDK that retries by itself under this Transport is one too many. Tokens are not shared between regions.
	AWS = Target{
		Name: "AWS ClientToken", Members: []string{"ClientToken", "clientToken", "ClientRequestToken", "clientRequestToken"}, CallerSets: true,
		Methods: []string{http.MethodPost, http.MethodPut, http.MethodPatch}, MaxLength: 64,
		Judge:  judgeAWS,
		Source: "https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html",
	}
	// OASIS is a server that follows OASIS Repeatable Requests 1.0, as those of Azure do. It tells when the operation was
	// first sent; the server remembers it for at least 5 minutes.
	OASIS = Target{
		Name: "OASIS repeatable requests", Header: "Repeatability-Request-ID", FirstSent: "Repeatability-First-Sent",
		Methods: []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, Pattern: uuidPattern, Format: "a UUID",
		Retention: 5 * time.Minute,
		Judge:     judgeOASIS,
		Source:    "https://docs.oasis-open.org/odata/repeatable-requests/v1.0/repeatable-requests-v1.0.html, https://learn.microsoft.com/en-us/rest/api/communication/repeatable-requests",
	}
)

// Known returns the targets of this package.
func Known() []Target {
	return []Target{Ichido, Draft07, Stripe, PayPal, Adyen, Square, GoCardless, PayJP, KOMOJU, LINE, Mangopay, AmazonPay, AWS, OASIS}
}

// judgeConflict judges 409 only.
func judgeConflict(v Verdict) func(Answer) Judgement {
	return func(a Answer) Judgement {
		if a.Status == http.StatusConflict {
			return Judgement{Verdict: v}
		}
		return Judgement{}
	}
}

func judgeIchido(a Answer) Judgement {
	switch a.code() {
	case "in-progress":
		return Judgement{Verdict: InProgress}
	case "mismatch":
		return Judgement{Verdict: Mismatch}
	case "store-unavailable", "contention", "not-committed", "handler-failed", "body-unreadable":
		return Judgement{Verdict: TryAgain}
	case "commit-unknown", "attempt-repeatable":
		return Judgement{Verdict: Uncertain}
	case "outcome-unknown", "attempt-failed":
		return Judgement{Verdict: Unresolved}
	case "replay-refused", "record-unreadable":
		return Judgement{Verdict: Succeeded}
	case "answer-not-kept":
		return Judgement{Verdict: Succeeded, Resource: a.Header.Get("Location")}
	case "response-not-storable":
		return Judgement{Verdict: Refused}
	case "":
		return Judgement{}
	}
	// A code that is newer than this client, or of the service's own.
	var p struct{ Retryable *bool }
	a.decode(&p)
	switch {
	case p.Retryable != nil && *p.Retryable:
		return Judgement{Verdict: Uncertain}
	case p.Retryable != nil && byStatus(a.Status) == Uncertain:
		return Judgement{Verdict: Unresolved}
	}
	return Judgement{}
}

func judgeStripe(a Answer) Judgement {
	var b struct{ Error struct{ Type, Code string } }
	a.decode(&b)
	switch {
	case b.Error.Type == "idempotency_error":
		return Judgement{Verdict: Mismatch}
	case b.Error.Code == "idempotency_key_in_use":
		return Judgement{Verdict: InProgress}
	case a.Status == http.StatusConflict:
		return Judgement{Verdict: TryAgain} // a lock that could not be had; such answers are not kept
	}
	return Judgement{}
}

func judgePayPal(a Answer) Judgement {
	var b struct {
		Name    string
		Details []struct{ Issue string }
	}
	a.decode(&b)
	names := []string{b.Name}
	for _, d := range b.Details {
		names = append(names, d.Issue)
	}
	for _, name := range names {
		switch name {
		case "PREVIOUS_REQUEST_IN_PROGRESS":
			return Judgement{Verdict: InProgress}
		case "PAYPAL_REQUEST_ID_PREVIOUSLY_USED", "DUPLICATE_REQUEST_ID":
			return Judgement{Verdict: Mismatch}
		}
	}
	return Judgement{}
}

// judgeAdyen takes a failure for final that Adyen itself gave, which returns the key, and did not flag as transient.
func judgeAdyen(a Answer) Judgement {
	var b struct{ ErrorCode string }
	a.decode(&b)
	switch {
	case b.ErrorCode == "704":
		return Judgement{Verdict: InProgress}
	case b.ErrorCode == "703":
		return Judgement{Verdict: TryAgain}
	case strings.EqualFold(a.Header.Get("Transient-Error"), "true"):
		return Judgement{Verdict: Uncertain}
	case a.Status >= 500 && a.Header.Get("Idempotency-Key") != "":
		return Judgement{Verdict: Unresolved}
	}
	return Judgement{}
}

func judgeSquare(a Answer) Judgement {
	var b struct{ Errors []struct{ Code string } }
	a.decode(&b)
	for _, e := range b.Errors {
		if e.Code == "IDEMPOTENCY_KEY_REUSED" {
			return Judgement{Verdict: Mismatch}
		}
	}
	return Judgement{}
}

func judgeGoCardless(a Answer) Judgement {
	var b struct {
		Error struct {
			Errors []struct {
				Reason string
				Links  struct {
					Resource string `json:"conflicting_resource_id"`
				}
			}
		}
	}
	a.decode(&b)
	for _, e := range b.Error.Errors {
		if e.Reason == "idempotent_creation_conflict" {
			return Judgement{Succeeded, e.Links.Resource}
		}
	}
	return Judgement{}
}

func judgePayJP(a Answer) Judgement {
	switch a.code() {
	case "idempotency_timeout":
		return Judgement{Verdict: InProgress}
	case "idempotency_conflict":
		return Judgement{Verdict: Mismatch}
	case "idempotency_infrastructure_error":
		return Judgement{Verdict: TryAgain}
	}
	return Judgement{}
}

func judgeLINE(a Answer) Judgement {
	if a.Status == http.StatusConflict {
		return Judgement{Succeeded, a.Header.Get("X-Line-Accepted-Request-Id")}
	}
	return Judgement{}
}

func judgeMangopay(a Answer) Judgement {
	var b struct{ Type string }
	a.decode(&b)
	if b.Type == "idempotent_creation_conflict" {
		return Judgement{Unresolved, "responses/" + url.PathEscape(a.Key)}
	}
	return Judgement{}
}

func judgeAmazonPay(a Answer) Judgement {
	var b struct{ ReasonCode string }
	a.decode(&b)
	if b.ReasonCode == "DuplicateIdempotencyKey" {
		return Judgement{Verdict: Mismatch}
	}
	return Judgement{}
}

func judgeAWS(a Answer) Judgement {
	switch code := awsCode(a); code {
	case "IdempotentParameterMismatch", "IdempotentParameterMismatchException", "IdempotencyParameterMismatch", "IdempotencyParameterMismatchException":
		return Judgement{Verdict: Mismatch}
	case "PriorRequestNotComplete":
		return Judgement{Verdict: InProgress}
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "SlowDown", "BandwidthLimitExceeded", "EC2ThrottledException":
		return Judgement{Verdict: TryAgain}
	case "RequestTimeout", "RequestTimeoutException":
		return Judgement{Verdict: Uncertain}
	}
	return Judgement{}
}

// awsCode returns the code of an AWS error: in a field or the body, in one of its protocols.
func awsCode(a Answer) string {
	code := a.Header.Get("X-Amzn-Errortype")
	if code == "" && bytes.HasPrefix(bytes.TrimSpace(a.Body), []byte("{")) {
		var b struct {
			Type string `json:"__type"`
			Code string `json:"code"`
		}
		if _ = json.Unmarshal(a.Body, &b); b.Type != "" {
			code = b.Type
		} else {
			code = b.Code
		}
	} else if code == "" {
		var b struct {
			EC2   string `xml:"Errors>Error>Code"`
			Query string `xml:"Error>Code"`
			S3    string `xml:"Code"`
		}
		_ = xml.Unmarshal(a.Body, &b)
		code = b.EC2 + b.Query + b.S3
	}
	code, _, _ = strings.Cut(code, ":")
	return code[strings.LastIndexByte(code, '#')+1:]
}

func judgeOASIS(a Answer) Judgement {
	switch {
	case a.Status == http.StatusConflict:
		return Judgement{Verdict: InProgress}
	case a.Status == http.StatusBadRequest && strings.EqualFold(a.Header.Get("Repeatability-Result"), "rejected"):
		return Judgement{Verdict: Mismatch}
	}
	return Judgement{}
}
