package main

import (
	"fmt"
	"net/http"

	"github.com/ichido-dev/ichido/internal/problem"
)

// problemBase precedes the code of a problem in its type, which is a path of the server itself: it documents its
// problems there. The library's own problems have the same.
const problemBase = "/problems/"

// A kind is one type of problem that a request can meet in this API, beyond those of the library.
type kind struct {
	code       string // ends the problem's type
	status     int
	retryable  bool   // the same request, unchanged, may succeed later
	retryAfter string // seconds; "" for no hint
	title      problem.Text
	detail     problem.Text // what to do; "" if each occurrence has its own
}

var (
	notJSON = &kind{code: "not-json", status: http.StatusBadRequest,
		title: problem.Text{
			EN: "The body is not valid JSON",
			JA: "本文が正しい JSON ではありません"}}
	memberInvalid = &kind{code: "member-invalid", status: http.StatusBadRequest,
		title: problem.Text{
			EN: "A member of the body is not valid",
			JA: "本文の項目が正しくありません"}}
	parameterInvalid = &kind{code: "parameter-invalid", status: http.StatusBadRequest,
		title: problem.Text{
			EN: "A query parameter is not valid",
			JA: "クエリパラメーターが正しくありません"}}
	tokenRequired = &kind{code: "token-required", status: http.StatusUnauthorized,
		title: problem.Text{
			EN: "A valid token is required",
			JA: "有効なトークンが必要です"},
		detail: problem.Text{
			EN: "Send it with the request: Authorization: Bearer …",
			JA: "リクエストに付けて送ってください。Authorization: Bearer …"}}
	itemUnknown = &kind{code: "item-unknown", status: http.StatusBadRequest,
		title: problem.Text{
			EN: "The office has no such item",
			JA: "この品目はありません"},
		detail: problem.Text{
			EN: "GET /items lists all. Nothing was done. The answer is kept: for another item take a new key.",
			JA: "品目の一覧は GET /items にあります。何もしていません。この結果は保存されます。別の品目を注文するときは新しいキーを使ってください。"}}
	cardDeclined = &kind{code: "card-declined", status: http.StatusPaymentRequired,
		title: problem.Text{
			EN: "The card was declined",
			JA: "カードが利用できませんでした"},
		detail: problem.Text{
			EN: "Nothing was charged, and nothing is reserved any more. The answer is kept: with another card take a new key.",
			JA: "請求はしておらず、確保した在庫も戻しました。この結果は保存されます。別のカードで注文するときは新しいキーを使ってください。"}}
	noResource = &kind{code: "no-resource", status: http.StatusNotFound,
		title: problem.Text{
			EN: "There is nothing at this path",
			JA: "このパスには何もありません"},
		detail: problem.Text{
			EN: "This API has /reservations, /orders, /items and /healthz; /openapi.json describes it.",
			JA: "この API には /reservations、/orders、/items、/healthz があります。説明は /openapi.json にあります。"}}
	noReservation = &kind{code: "no-reservation", status: http.StatusNotFound,
		title: problem.Text{
			EN: "There is no such reservation",
			JA: "この予約はありません"}}
	noOrder = &kind{code: "no-order", status: http.StatusNotFound,
		title: problem.Text{
			EN: "There is no such order",
			JA: "この注文はありません"}}
	otherOrigin = &kind{code: "other-origin", status: http.StatusForbidden,
		title: problem.Text{
			EN: "The form was sent from another site",
			JA: "別のサイトから送信されたフォームです"},
		detail: problem.Text{
			EN: "Nothing was done. Send the form from the page itself.",
			JA: "何も実行していません。このサイトのページから送信してください。"}}
	methodNotAllowed = &kind{code: "method-not-allowed", status: http.StatusMethodNotAllowed,
		title: problem.Text{
			EN: "This path does not have this method",
			JA: "このパスではこのメソッドを使えません"}}
	outOfStock = &kind{code: "out-of-stock", status: http.StatusConflict,
		title: problem.Text{
			EN: "There is not enough of it left",
			JA: "在庫が足りません"}}
	mediaTypeUnsupported = &kind{code: "media-type-unsupported", status: http.StatusUnsupportedMediaType,
		title: problem.Text{
			EN: "The body must be JSON",
			JA: "本文は JSON でなければなりません"},
		detail: problem.Text{
			EN: "Send it with Content-Type: application/json.",
			JA: "Content-Type: application/json を付けて送ってください。"}}
	databaseUnreachable = &kind{code: "database-unreachable", status: http.StatusServiceUnavailable, retryable: true, retryAfter: "5",
		title: problem.Text{
			EN: "The database cannot be reached",
			JA: "データベースに接続できません"},
		detail: problem.Text{
			EN: "Nothing was left. Send the same request again later with the same key.",
			JA: "何も残っていません。しばらくしてから、同じキーで同じリクエストを送ってください。"}}
	paymentUnavailable = &kind{code: "payment-unavailable", status: http.StatusServiceUnavailable, retryable: true, retryAfter: "5",
		title: problem.Text{
			EN: "The payment provider cannot be reached",
			JA: "決済サービスに接続できません"},
		detail: problem.Text{
			EN: "The order is kept, and is charged once at most. Send the same request again later with the same key: the order goes on, and its answer comes. A new key would be a second order.",
			JA: "注文は残っており、請求は多くても一度です。しばらくしてから、同じキーで同じリクエストを送ってください。注文が続きから進み、結果が返ります。新しいキーを使うと、別の注文になります。"}}
	internalFault = &kind{code: "internal-fault", status: http.StatusInternalServerError, retryable: true,
		title: problem.Text{
			EN: "The server failed while handling the request",
			JA: "リクエストの処理中にサーバーで障害が発生しました"},
		detail: problem.Text{
			EN: "Nothing was left. The same key may be used again.",
			JA: "何も残っていません。同じキーをもう一度使えます。"}}
)

// The problems of the payment provider that ichido fakepay plays, beyond those that it shares with the API.
var (
	switchInvalid = &kind{code: "switch-invalid", status: http.StatusBadRequest,
		title: problem.Text{
			EN: "A switch is not valid",
			JA: "スイッチの指定が正しくありません"}}
	noCharge = &kind{code: "no-charge", status: http.StatusNotFound,
		title: problem.Text{
			EN: "There is no such charge",
			JA: "この請求はありません"}}
	providerFailed = &kind{code: "provider-failed", status: http.StatusInternalServerError, retryable: true,
		title: problem.Text{
			EN: "The provider failed",
			JA: "決済サービスで障害が発生しました"},
		detail: problem.Text{
			EN: "Whether the card was charged, it does not say. Send the same request again with the same key.",
			JA: "請求されたかどうかは分かりません。同じキーで同じリクエストを送ってください。"}}
	providerDown = &kind{code: "provider-down", status: http.StatusServiceUnavailable, retryable: true, retryAfter: "1",
		title: problem.Text{
			EN: "The provider is down",
			JA: "決済サービスは停止中です"},
		detail: problem.Text{
			EN: "Nothing was charged. Send the same request again later with the same key.",
			JA: "請求はしていません。しばらくしてから、同じキーで同じリクエストを送ってください。"}}
)

// fakepayKinds are all that the provider has.
var fakepayKinds = []*kind{
	notJSON, memberInvalid, parameterInvalid, switchInvalid, cardDeclined, noResource, noCharge, methodNotAllowed,
	mediaTypeUnsupported, internalFault, databaseUnreachable, providerFailed, providerDown,
}

// kinds are all that the API has.
var kinds = []*kind{
	notJSON, memberInvalid, itemUnknown, parameterInvalid, tokenRequired, cardDeclined, otherOrigin, noResource, noReservation, noOrder,
	methodNotAllowed, outOfStock, mediaTypeUnsupported, internalFault, databaseUnreachable, paymentUnavailable,
}

// text makes a text of the same arguments in both languages.
func text(en, ja string, args ...any) problem.Text {
	return problem.Text{EN: fmt.Sprintf(en, args...), JA: fmt.Sprintf(ja, args...)}
}

// A refuser answers with problems, in the language that the client asks for, else in its own. It has the pages about them.
type refuser struct {
	language string
	pages    problemPages
	people   bool // they are answered with pages
}

// toPeople returns a refuser that answers with pages.
func (f refuser) toPeople() refuser {
	f.people = true
	return f
}

// refuse answers with a problem. detail, if it is not empty, replaces the kind's own. That of a fault of ours names the
// request under which the log tells more.
func (f refuser) refuse(w http.ResponseWriter, r *http.Request, k *kind, detail problem.Text) {
	if detail == (problem.Text{}) {
		detail = k.detail
	}
	language := problem.Language(r.Header.Get("Accept-Language"), f.language)
	p := problem.Problem{
		Type:      problemBase + k.code,
		Title:     k.title.In(language),
		Status:    k.status,
		Detail:    detail.In(language),
		Code:      k.code,
		Retryable: k.retryable,
	}
	if trace := traceOf(r.Context()); k.status >= 500 && trace != nil {
		p.Instance = "urn:ichido:request:" + trace.id
	}
	w.Header().Add("Link", "<"+p.Type+`>; rel="describedby"; type="text/html"`)
	if k.retryAfter != "" {
		w.Header().Set("Retry-After", k.retryAfter)
	}
	if f.people {
		f.notice(w, r, p)
		return
	}
	problem.Write(w, p, language)
}
