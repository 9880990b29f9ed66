package ichido

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/ichido-dev/ichido/internal/problem"
)

// A kind is one type of problem that a request can meet before or instead of its handler.
type kind struct {
	name       string // ends the problem's type; its code
	status     int
	retryable  bool   // the same request, unchanged, may succeed later
	retryAfter string // seconds; "" for no hint
	title      problem.Text
	detail     problem.Text // what to do; "" if each occurrence has its own
	leaseMode  bool         // it is met in lease mode only
}

// contactMark stands for Config.Contact in a text.
const contactMark = "{contact}"

var defaultContact = problem.Text{EN: "the operator of this service", JA: "このサービスの運用者"}

// contactIn returns whom to ask, in the language.
func (m *Manager) contactIn(language string) string {
	if m.config.Contact != "" {
		return m.config.Contact
	}
	return defaultContact.In(language)
}

var (
	keyRequired = &kind{name: "key-required", status: http.StatusBadRequest,
		title: problem.Text{
			EN: "Idempotency-Key header is required",
			JA: "Idempotency-Key ヘッダーが必要です"},
		detail: problem.Text{
			EN: `Make one key for each operation, such as a UUID, and send it with every try: Idempotency-Key: "…"`,
			JA: `操作ごとにキー(UUID など)を 1 つ作り、再送のたびに同じキーを送ってください。Idempotency-Key: "…"`}}
	keyInvalid = &kind{name: "key-invalid", status: http.StatusBadRequest,
		title: problem.Text{
			EN: "Idempotency-Key header is not valid",
			JA: "Idempotency-Key ヘッダーの形式が正しくありません"}}
	noPrincipal = &kind{name: "no-principal", status: http.StatusForbidden,
		title: problem.Text{
			EN: "The request has no principal to whom its key could belong",
			JA: "キーの持ち主を特定できません"},
		detail: problem.Text{
			EN: "Authenticate, then send the request again.",
			JA: "認証してから、もう一度送ってください。"}}
	bodyTooLarge = &kind{name: "body-too-large", status: http.StatusRequestEntityTooLarge,
		title: problem.Text{
			EN: "The request body is too large",
			JA: "リクエストの本文が大きすぎます"}}
	bodyUnreadable = &kind{name: "body-unreadable", status: http.StatusBadRequest, retryable: true,
		title: problem.Text{
			EN: "The request body could not be read to its end",
			JA: "リクエストの本文を最後まで読み取れませんでした"},
		detail: problem.Text{
			EN: "Nothing was done. Send the request again with the same key.",
			JA: "何も実行していません。同じキーでもう一度送ってください。"}}
	inProgress = &kind{name: "in-progress", status: http.StatusConflict, retryable: true,
		title: problem.Text{
			EN: "A request with this key is in progress",
			JA: "同じキーのリクエストを処理中です"},
		detail: problem.Text{
			EN: "Send the same request again later with the same key; it will get the first one's answer.",
			JA: "しばらくしてから、同じキーで同じリクエストを送ってください。最初のリクエストの結果を返します。"}}
	mismatch = &kind{name: "mismatch", status: http.StatusUnprocessableEntity,
		title: problem.Text{
			EN: "This key was used with a different request",
			JA: "このキーは別の内容のリクエストで使われています"},
		detail: problem.Text{
			EN: "Nothing was done. A different request is a new operation: send it with a new key.",
			JA: "何も実行していません。内容の異なるリクエストは新しい操作です。新しいキーで送ってください。"}}
	storeUnavailable = &kind{name: "store-unavailable", status: http.StatusServiceUnavailable, retryable: true, retryAfter: "5",
		title: problem.Text{
			EN: "The database cannot answer",
			JA: "データベースが応答しません"},
		detail: problem.Text{
			EN: "Nothing was done. Send the same request again later with the same key.",
			JA: "何も実行していません。しばらくしてから、同じキーで同じリクエストを送ってください。"}}
	commitUnknown = &kind{name: "commit-unknown", status: http.StatusServiceUnavailable, retryable: true, retryAfter: "1",
		title: problem.Text{
			EN: "Whether the request took effect is not known yet",
			JA: "リクエストが反映されたかどうか、まだ分かりません"},
		detail: problem.Text{
			EN: "Send the same request again with the same key: it takes effect once, whichever way the first try went.",
			JA: "同じキーで同じリクエストを送ってください。最初の結果がどうであれ、反映されるのは一度だけです。"}}
	outcomeUnknown = &kind{name: "outcome-unknown", status: http.StatusConflict, leaseMode: true,
		title: problem.Text{
			EN: "Whether an earlier request with this key took effect is unknown",
			JA: "同じキーの以前のリクエストが反映されたかどうか分かりません"},
		detail: problem.Text{
			EN: "Nothing was done now. Waiting and sending again do not help, and a new key may do it twice. Ask " + contactMark + ", naming the key.",
			JA: "今回は何も実行していません。待っても再送しても解決せず、新しいキーで送ると二重になるおそれがあります。キーを添えて" + contactMark + "に問い合わせてください。"}}
	attemptFailed = &kind{name: "attempt-failed", status: http.StatusInternalServerError, leaseMode: true,
		title: problem.Text{
			EN: "The server failed, and whether the request took effect is unknown",
			JA: "サーバーで障害が発生し、リクエストが反映されたかどうか分かりません"},
		detail: problem.Text{
			EN: "Sending again does not help, and a new key may do it twice. Ask " + contactMark + ", naming the key.",
			JA: "再送しても解決せず、新しいキーで送ると二重になるおそれがあります。キーを添えて" + contactMark + "に問い合わせてください。"}}
	attemptRepeatable = &kind{name: "attempt-repeatable", status: http.StatusInternalServerError, retryable: true, leaseMode: true,
		title: problem.Text{
			EN: "The server failed before the request was finished",
			JA: "リクエストの処理が終わる前にサーバーで障害が発生しました"},
		detail: problem.Text{
			EN: "Send the same request again later with the same key; it is safe to repeat.",
			JA: "しばらくしてから、同じキーで同じリクエストを送ってください。繰り返しても安全です。"}}
	contention = &kind{name: "contention", status: http.StatusServiceUnavailable, retryable: true, retryAfter: "1",
		title: problem.Text{
			EN: "Too many requests change the same data at once",
			JA: "同じデータへの更新が集中しています"},
		detail: problem.Text{
			EN: "Nothing was done. Send the same request again later with the same key.",
			JA: "何も実行していません。しばらくしてから、同じキーで同じリクエストを送ってください。"}}
	notCommitted = &kind{name: "not-committed", status: http.StatusInternalServerError, retryable: true,
		title: problem.Text{
			EN: "The database refused to commit",
			JA: "データベースがコミットを拒否しました"},
		detail: problem.Text{
			EN: "Nothing was left. The same key may be used again.",
			JA: "何も残っていません。同じキーをもう一度使えます。"}}
	handlerFailed = &kind{name: "handler-failed", status: http.StatusInternalServerError, retryable: true,
		title: problem.Text{
			EN: "The server failed while handling the request",
			JA: "リクエストの処理中にサーバーで障害が発生しました"},
		detail: problem.Text{
			EN: "Nothing was left. The same key may be used again.",
			JA: "何も残っていません。同じキーをもう一度使えます。"}}
	fingerprintFailed = &kind{name: "not-comparable", status: http.StatusBadRequest,
		title: problem.Text{
			EN: "The request cannot be compared with others under its key",
			JA: "リクエストの内容を比較できません"}}
	replayRefused = &kind{name: "replay-refused", status: http.StatusForbidden,
		title: problem.Text{
			EN: "The stored answer may not be shown to you",
			JA: "保存された結果を表示する権限がありません"},
		detail: problem.Text{
			EN: "The request took effect before. Nothing was done now.",
			JA: "リクエストは以前に反映されています。今回は何も実行していません。"}}
	answerNotKept = &kind{name: "answer-not-kept", status: http.StatusConflict,
		title: problem.Text{
			EN: "The request took effect, but its answer was too large to be kept",
			JA: "リクエストは反映されましたが、結果は大きすぎるため保存されていません"},
		detail: problem.Text{
			EN: "Nothing was done now. Do not send it again; read the result, at the Location if there is one.",
			JA: "今回は何も実行していません。再送せず、Location があればそこから結果を取得してください。"}}
	unreadable = &kind{name: "record-unreadable", status: http.StatusInternalServerError,
		title: problem.Text{
			EN: "The stored answer cannot be read",
			JA: "保存された結果を読み取れません"},
		detail: problem.Text{
			EN: "The request took effect before. Nothing was done now. The operator can find the reason in the log.",
			JA: "リクエストは以前に反映されています。今回は何も実行していません。原因は運用者がログで確認できます。"}}
	unstorable = &kind{name: "response-not-storable", status: http.StatusInternalServerError,
		title: problem.Text{
			EN: "The response cannot be stored",
			JA: "レスポンスを保存できません"},
		detail: problem.Text{
			EN: "Nothing was left. The service must be changed before this request can succeed.",
			JA: "何も残っていません。このリクエストが成功するには、サービスの変更が必要です。"}}
)

// A Problem is a problem document (RFC 9457): why a request was not answered by its handler.
type Problem struct {
	Type      string `json:"type"`               // a URI; what programs tell problems apart by
	Title     string `json:"title"`              // the same for every occurrence
	Status    int    `json:"status"`             // that of the response
	Detail    string `json:"detail,omitempty"`   // about this occurrence: what is wrong, what to do
	Instance  string `json:"instance,omitempty"` // names this occurrence in the server's log
	Code      string `json:"code"`               // a stable name: the end of Type
	Retryable bool   `json:"retryable"`          // whether the same request may be sent again as it is
}

// refuse answers with a problem of kind k. detail, if not empty, replaces the kind's own. A fault of ours (5xx) is
// logged with cause, under an id that the client is given too.
func (m *Manager) refuse(w http.ResponseWriter, r *http.Request, k *kind, detail string, cause error) {
	language := problem.Language(r.Header.Get("Accept-Language"), m.config.Language)
	p := Problem{
		Type:      m.config.ProblemBase + k.name,
		Title:     k.title.In(language),
		Status:    m.statusOf(k),
		Detail:    detail,
		Code:      k.name,
		Retryable: k.retryable,
	}
	if detail == "" {
		p.Detail = strings.ReplaceAll(k.detail.In(language), contactMark, m.contactIn(language))
	}
	if m.config.Header != KeyHeader {
		p.Title = strings.ReplaceAll(p.Title, KeyHeader, m.config.Header)
		p.Detail = strings.ReplaceAll(p.Detail, KeyHeader, m.config.Header)
	}
	if k.status >= 500 {
		id := rand.Text()
		p.Instance = "urn:ichido:fault:" + id
		m.log.ErrorContext(r.Context(), "ichido: a request could not be answered",
			slog.String("fault", id), slog.String("code", k.name), slog.Any("error", cause))
	}
	h := w.Header()
	m.expose(w, r)
	h.Add("Link", "<"+p.Type+`>; rel="describedby"; type="text/html"`)
	switch {
	case k == inProgress:
		h.Set("Retry-After", m.pace.retryAfter())
	case k.retryAfter != "":
		h.Set("Retry-After", k.retryAfter)
	}
	if m.config.WriteProblem != nil {
		m.config.WriteProblem(w, r, p)
		return
	}
	problem.Write(w, problem.Problem(p), language)
}

// detailOf returns the text of an error in the language of the request, if it has one in each.
func (m *Manager) detailOf(r *http.Request, err error) string {
	if e := new(textError); errors.As(err, &e) {
		return e.In(problem.Language(r.Header.Get("Accept-Language"), m.config.Language))
	}
	return err.Error()
}

func (m *Manager) statusOf(k *kind) int {
	switch k {
	case inProgress:
		return m.config.ConflictStatus
	case mismatch:
		return m.config.MismatchStatus
	}
	return k.status
}
