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
	noResource = &kind{code: "no-resource", status: http.StatusNotFound,
		title: problem.Text{
			EN: "There is nothing at this path",
			JA: "このパスには何もありません"},
		detail: problem.Text{
			EN: "This API has /reservations, /reservations/{id} and /healthz; /openapi.json describes it.",
			JA: "この API には /reservations、/reservations/{id}、/healthz があります。説明は /openapi.json にあります。"}}
	noReservation = &kind{code: "no-reservation", status: http.StatusNotFound,
		title: problem.Text{
			EN: "There is no such reservation",
			JA: "この予約はありません"}}
	methodNotAllowed = &kind{code: "method-not-allowed", status: http.StatusMethodNotAllowed,
		title: problem.Text{
			EN: "This path does not have this method",
			JA: "このパスではこのメソッドを使えません"}}
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
	internalFault = &kind{code: "internal-fault", status: http.StatusInternalServerError, retryable: true,
		title: problem.Text{
			EN: "The server failed while handling the request",
			JA: "リクエストの処理中にサーバーで障害が発生しました"},
		detail: problem.Text{
			EN: "Nothing was left. The same key may be used again.",
			JA: "何も残っていません。同じキーをもう一度使えます。"}}
)

// kinds are all of them.
var kinds = []*kind{
	notJSON, memberInvalid, parameterInvalid, tokenRequired, noResource, noReservation, methodNotAllowed,
	mediaTypeUnsupported, internalFault, databaseUnreachable,
}

// text makes a text of the same arguments in both languages.
func text(en, ja string, args ...any) problem.Text {
	return problem.Text{EN: fmt.Sprintf(en, args...), JA: fmt.Sprintf(ja, args...)}
}

// A refuser answers with problems, in the language that the client asks for, else in its own.
type refuser struct{ language string }

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
	problem.Write(w, p, language)
}
