package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ichido-dev/ichido/internal/problem"
)

// fill puts values into the {places} of a text.
func fill(text string, namesAndValues ...any) string {
	var pairs []string
	for i := 0; i < len(namesAndValues); i += 2 {
		pairs = append(pairs, fmt.Sprintf("{%v}", namesAndValues[i]), fmt.Sprint(namesAndValues[i+1]))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// yen writes an amount as people do: 148,000.
func yen(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// officeWords are the words of the templates of pages.
var officeWords = map[string]problem.Text{
	"Title":      {EN: "Book office equipment", JA: "オフィス備品の予約"},
	"Lead":       {EN: "Click twice, reload, lose the network: one booking is one booking.", JA: "二度押しても、再読み込みしても、通信が切れても、予約は一度だけ。"},
	"Skip":       {EN: "Skip to the form", JA: "フォームへ移動"},
	"OtherName":  {EN: "日本語", JA: "English"}, // the other language, in itself
	"Footer":     {EN: "About this service", JA: "このサービスについて"},
	"Problems":   {EN: "Problems", JA: "エラー一覧"},
	"API":        {EN: "API", JA: "API"},
	"Keys":       {EN: "Rules for keys", JA: "キーの規則"},
	"Problem":    {EN: "About this problem", JA: "このエラーについて"},
	"Book":       {EN: "Book", JA: "予約する"},
	"BookTitle":  {EN: "New booking", JA: "新しい予約"},
	"Item":       {EN: "Item", JA: "品目"},
	"Left":       {EN: "{n} left", JA: "残り {n}"},
	"Short":      {EN: "none left, {n} too many booked", JA: "残り 0({n} 超過)"},
	"Quantity":   {EN: "Quantity", JA: "数量"},
	"Name":       {EN: "Your name", JA: "お名前"},
	"Booked":     {EN: "Booked: {item} × {n}, no. {id}.", JA: "予約しました:{item} × {n}(番号 {id})"},
	"Mine":       {EN: "My bookings", JA: "自分の予約"},
	"NoName":     {EN: "What is booked under your name appears here.", JA: "入力したお名前の予約がここに表示されます。"},
	"NoBookings": {EN: "Nothing is booked under this name.", JA: "このお名前の予約はありません。"},
	"No":         {EN: "no. {id}", JA: "番号 {id}"},
	"More":       {EN: "Older ones", JA: "以前の予約"},

	"TokenTitle": {EN: "This office asks for a token", JA: "トークンが必要です"},
	"TokenWhy":   {EN: "The server was started with --token. The token says who you are; keys belong to its name. This page keeps it in this tab only, and forgets it when the tab is closed.", JA: "サーバーは --token を指定して起動されています。トークンは利用者を表し、キーはその名前に属します。このページはトークンをこのタブだけに保持し、タブを閉じると消します。"},
	"TokenWrong": {EN: "This token is not valid.", JA: "このトークンは正しくありません。"},
	"Token":      {EN: "Token", JA: "トークン"},
	"Enter":      {EN: "Enter", JA: "入る"},
	"SignedIn":   {EN: "Token of {name}", JA: "{name} のトークンを使用中"},
	"SignOut":    {EN: "Forget the token", JA: "トークンを消す"},
	"NoScript":   {EN: "This part needs JavaScript. The booking form works without.", JA: "この部分には JavaScript が必要です。予約フォームは JavaScript なしで使えます。"},

	"NetTitle":   {EN: "Try it on a bad network", JA: "悪い通信環境で試す"},
	"NetLead":    {EN: "One click, sent over the same bad network by two clients that both try again: one without a key, to a server that knows none, and one with a key, to the real one.", JA: "一度のクリックを、同じ悪い通信環境で 2 つのクライアントが送ります。どちらも失敗すると再送します。一方はキーなしでキーを扱わないサーバーへ、もう一方はキー付きで本物のサーバーへ。"},
	"NetWhat":    {EN: "What the network does to the first request", JA: "最初のリクエストに起きること"},
	"NetRequest": {EN: "Lose the request", JA: "リクエストを失う"},
	"NetAnswer":  {EN: "Lose the answer", JA: "応答を失う"},
	"NetDelay":   {EN: "Deliver it late", JA: "遅れて届ける"},
	"NetTwice":   {EN: "Deliver it twice", JA: "二重に届ける"},
	"NetKill":    {EN: "Cut it off half-way", JA: "途中で切る"},
	"NetGo":      {EN: "Book once, both ways", JA: "両方で 1 回予約する"},
	"Without":    {EN: "Without a key", JA: "キーなし"},
	"With":       {EN: "With a key", JA: "キーあり"},
	"ForOne":     {EN: "booked by one click", JA: "件の予約(クリック 1 回)"},

	"OrderTitle": {EN: "Order supplies", JA: "備品を注文する"},
	"OrderLead":  {EN: "An order takes stock, charges a card and sends a mail, each once. Kill the server while it goes on, start it again, and the order goes on where it stopped.", JA: "注文は、在庫の確保、カードへの請求、メールの送信を、それぞれ一度だけ行います。途中でサーバーを強制終了しても、起動し直せば止まったところから続きます。"},
	"Card":       {EN: "Card", JA: "カード"},
	"CardHint":   {EN: "A word will do, like visa; “declined” is declined.", JA: "visa などの言葉で構いません。declined は拒否されます。"},
	"Order":      {EN: "Order", JA: "注文する"},
	"Each":       {EN: "¥{price} each", JA: "1 個 {price} 円"},
	"Reserved":   {EN: "Stock taken", JA: "在庫を確保"},
	"Charged":    {EN: "Card charged", JA: "カードに請求"},
	"Confirmed":  {EN: "Confirmed, mail sent", JA: "確定・メール送信"},

	"SendAgain": {EN: "Send it again: it stays one booking", JA: "もう一度送る(予約は一度だけです)"},
	"LookAgain": {EN: "Try again", JA: "もう一度試す"},
	"Back":      {EN: "Back to the form", JA: "フォームに戻る"},

	"DocsTitle":  {EN: "API of the office", JA: "備品予約の API"},
	"DocsLead":   {EN: "For people. Programs read:", JA: "人が読むための説明です。プログラム用の文書:"},
	"Parameters": {EN: "Parameters", JA: "パラメーター"},
	"Body":       {EN: "Body, JSON", JA: "本文(JSON)"},
	"Answers":    {EN: "Answers", JA: "応答"},
	"Required":   {EN: "required", JA: "必須"},
	"NeedsToken": {EN: "needs a token", JA: "トークンが必要"},
}

// officeScriptWords are those of pages/office.js.
var officeScriptWords = map[string]problem.Text{
	"sending":   {EN: "Sending …", JA: "送信しています…"},
	"queued":    {EN: "Another tab is sending; this one waits for its answer.", JA: "別のタブで送信中です。その結果を待っています。"},
	"offline":   {EN: "There is no network. What you sent is kept, and goes out when the network is back.", JA: "通信できません。送信内容は保存してあり、回復すると送信します。"},
	"noAnswer":  {EN: "No answer. Trying again under the same key (try {n}).", JA: "応答がありません。同じキーで送り直します({n} 回目)。"},
	"busy":      {EN: "The server is still at it. Asking again under the same key (try {n}).", JA: "サーバーで処理中です。同じキーでもう一度確認します({n} 回目)。"},
	"replayed":  {EN: "The server had done it already; this is its first answer.", JA: "サーバーでは処理済みで、最初の結果を受け取りました。"},
	"unknown":   {EN: "It is not known yet whether this was done. Try again: it stays one.", JA: "処理されたかどうか、まだ分かりません。もう一度試しても、二重にはなりません。"},
	"notDone":   {EN: "This was not done.", JA: "処理されませんでした。"},
	"mismatch":  {EN: "First: it is not known yet what became of what you sent before. Find that out, then send this.", JA: "前に送信した内容の結果がまだ分かりません。先にそれを確認してから送信してください。"},
	"findOut":   {EN: "Find out", JA: "確認する"},
	"again":     {EN: "Try again", JA: "もう一度試す"},
	"forget":    {EN: "Forget it", JA: "破棄する"},
	"forgotten": {EN: "Forgotten. It may have been done: look at the list before you send it anew.", JA: "破棄しました。処理済みの可能性があります。送り直す前に一覧を確認してください。"},
	"about":     {EN: "About this problem", JA: "このエラーについて"},
	"badAnswer": {EN: "The server answered {status}.", JA: "サーバーの応答は {status} です。"},

	"down":      {EN: "The server does not answer. Your order is kept; trying again under the same key (try {n}).", JA: "サーバーが応答しません。注文は保存してあり、同じキーで送り直します({n} 回目)。"},
	"confirmed": {EN: "Order no. {id} is confirmed: ¥{amount}, charged once.", JA: "注文(番号 {id})が確定しました。{amount} 円を一度だけ請求しました。"},
	"fakepay":   {EN: "A provider to try is: ichido fakepay", JA: "試用の決済サービスは ichido fakepay で起動できます。"},

	"tSent":        {EN: "Sent", JA: "送信"},
	"tAgain":       {EN: "Sent again", JA: "再送"},
	"tRequestLost": {EN: "The network loses the request", JA: "リクエストが失われる"},
	"tAnswerLost":  {EN: "The network loses the answer", JA: "応答が失われる"},
	"tHeld":        {EN: "The network holds it up", JA: "途中で滞る"},
	"tGaveUp":      {EN: "The client gives up waiting", JA: "待ち切れず中断"},
	"tArrives":     {EN: "The first one arrives, late", JA: "最初のものが遅れて届く"},
	"tDouble":      {EN: "The network delivers it twice", JA: "二重に届く"},
	"tKilled":      {EN: "Cut off while the answer comes", JA: "応答の途中で切れる"},
	"tStatus":      {EN: "Answer: {status}", JA: "応答: {status}"},
	"tReplayed":    {EN: "Answer: {status}, the first one again", JA: "応答: {status}(最初の結果)"},
	"tNumbers":     {EN: "In the ledger: {ids}", JA: "台帳: {ids}"},
	"running":      {EN: "Both are at it …", JA: "実行中です…"},
	"failed":       {EN: "The experiment failed: the server does not answer.", JA: "サーバーが応答しないため、試せませんでした。"},
	"counts":       {EN: "{without} without a key, {with} with one. ", JA: "キーなし {without} 件、キーあり {with} 件。"},
	"saysRequest":  {EN: "Nothing had arrived, so trying again was right. But a client cannot tell this from a lost answer: only a key makes it safe in both cases.", JA: "何も届いていないので、再送は正解でした。ただし応答が失われた場合と区別できません。どちらでも安全なのは、キーがあるときだけです。"},
	"saysAnswer":   {EN: "The booking was made, only its answer was lost. Without a key the second try was a second booking; with one the server knew it and gave the first answer again.", JA: "予約は済み、応答だけが失われました。キーなしの再送は 2 件目の予約になり、キーがあればサーバーが最初の結果を返します。"},
	"saysDelay":    {EN: "The client tried again too early, and the first request still arrived. Without a key both were booked; with one the late request found the work done.", JA: "再送の後に、最初のリクエストも届きました。キーなしでは両方が予約になり、キーがあれば遅れた方は処理済みと分かります。"},
	"saysTwice":    {EN: "The client sent it once; something on the way delivered it twice. Without a key both were booked; with one the second was recognised.", JA: "一度送ったものが、途中で二重に届きました。キーなしでは両方が予約になり、キーがあれば 2 つ目は同じものと分かります。"},
	"saysKill":     {EN: "The connection was cut, but the server went on. Without a key the second try was a second booking; with one it got the first answer.", JA: "接続が切れても、サーバーは処理を続けました。キーなしの再送は 2 件目の予約になり、キーがあれば最初の結果を受け取ります。"},
}

// operationsJA are the summaries of the API's operations, which the document has in English.
var operationsJA = map[string]string{
	"listReservations":  "予約の一覧(新しい順)",
	"createReservation": "予約する。キーごとに一度だけ",
	"getReservation":    "予約を読む",
	"listItems":         "注文できる品目の一覧",
	"listOrders":        "注文の一覧(新しい順)",
	"createOrder":       "注文する。請求とメールはキーごとに一度だけ",
	"getOrder":          "注文の進み具合を読む",
	"getHealth":         "ストアが応答するか調べる",
	"listProblems":      "エラーの一覧を読む",
	"getProblem":        "エラーの意味と対処を読む",
	"getDescription":    "OpenAPI 文書を読む",
	"getKeyPolicy":      "キーの規則を読む",
}
