package main

import "github.com/ichido-dev/ichido/internal/problem"

// A problemText is what the page of a problem says beside its title.
type problemText struct {
	meaning, action problem.Text
}

// pageWords are the fixed words of the pages.
var pageWords = map[string]problem.Text{
	"Nav":       {EN: "Pages", JA: "ページ"},
	"Office":    {EN: "The office", JA: "備品の予約"},
	"All":       {EN: "Problems of this API", JA: "この API のエラー一覧"},
	"Other":     {EN: "日本語", JA: "English"}, // the other language, in itself
	"Problem":   {EN: "Problem", JA: "エラー"},
	"Code":      {EN: "Code", JA: "コード"},
	"Status":    {EN: "Status", JA: "ステータス"},
	"Retryable": {EN: "Retryable", JA: "再送"},
	"Yes": {EN: "Yes: the same request, unchanged, may succeed later.",
		JA: "できます。同じリクエストをそのまま送り直すと、成功することがあります。"},
	"No": {EN: "No: the same request, unchanged, fails again.",
		JA: "できません。同じリクエストをそのまま送り直しても失敗します。"},
	"YesShort": {EN: "yes", JA: "できる"},
	"NoShort":  {EN: "no", JA: "できない"},
	"After":    {EN: "The field Retry-After says when.", JA: "間隔は Retry-After ヘッダーにあります。"},
	"Meaning":  {EN: "What it means", JA: "意味"},
	"Action":   {EN: "What to do", JA: "クライアントがすること"},
	"Intro": {
		EN: "A request that is not answered as asked gets one of these. A client that knows only this needs no more: if it is retryable, send the same request again with the same key, after Retry-After or a growing pause; else correct something first.",
		JA: "断られたリクエストには、次のいずれかを返します。再送できるものは、Retry-After の後か、しだいに長くする間隔を置いて、同じリクエストを同じキーで送ってください。できないものは、先に何かを直す必要があります。"},
}

// libraryTitles are the Japanese titles of the library's problems; the English ones come with the policy.
var libraryTitles = map[string]string{
	"key-required":          "Idempotency-Key ヘッダーが必要です",
	"key-invalid":           "Idempotency-Key ヘッダーの形式が正しくありません",
	"no-principal":          "キーの持ち主を特定できません",
	"body-too-large":        "リクエストの本文が大きすぎます",
	"body-unreadable":       "リクエストの本文を最後まで読み取れませんでした",
	"in-progress":           "同じキーのリクエストを処理中です",
	"mismatch":              "このキーは別の内容のリクエストで使われています",
	"store-unavailable":     "データベースが応答しません",
	"commit-unknown":        "リクエストが反映されたかどうか、まだ分かりません",
	"outcome-unknown":       "同じキーの以前のリクエストが反映されたかどうか分かりません",
	"attempt-failed":        "サーバーで障害が発生し、リクエストが反映されたかどうか分かりません",
	"attempt-repeatable":    "リクエストの処理が終わる前にサーバーで障害が発生しました",
	"contention":            "同じデータへの更新が集中しています",
	"not-committed":         "データベースがコミットを拒否しました",
	"handler-failed":        "リクエストの処理中にサーバーで障害が発生しました",
	"not-comparable":        "リクエストの内容を比較できません",
	"replay-refused":        "保存された結果を表示する権限がありません",
	"answer-not-kept":       "リクエストは反映されましたが、結果は大きすぎるため保存されていません",
	"record-unreadable":     "保存された結果を読み取れません",
	"response-not-storable": "レスポンスを保存できません",
}

// problemTexts are what the pages say, by code.
var problemTexts = map[string]problemText{
	// of the library
	"key-required": {
		problem.Text{
			EN: "The operation asks for a key, and the request has none. It did not run.",
			JA: "この操作にはキーが必要ですが、リクエストにありません。実行していません。"},
		problem.Text{
			EN: "Make one key for each operation, such as a UUID, keep it, and send it with every try in the field Idempotency-Key.",
			JA: "操作ごとにキー(UUID など)を 1 つ作って控え、送るたびに同じキーを Idempotency-Key ヘッダーに付けてください。"}},
	"key-invalid": {
		problem.Text{
			EN: "The key is not of the form that is accepted. The member detail says why. The request did not run.",
			JA: "キーの形式が正しくありません。理由は detail にあります。実行していません。"},
		problem.Text{
			EN: "Send the field once, with a key of 1 to 255 ASCII characters, in double quotes or, without space, comma and quote, bare.",
			JA: "ヘッダーを 1 つだけ送ってください。キーは 1〜255 文字の ASCII で、二重引用符で囲みます。空白、コンマ、引用符がなければ囲まなくてもかまいません。"}},
	"no-principal": {
		problem.Text{
			EN: "A key belongs to its principal, and the request has none. It did not run.",
			JA: "キーには持ち主が必要ですが、リクエストから特定できません。実行していません。"},
		problem.Text{
			EN: "Authenticate, then send the request again.",
			JA: "認証してから、もう一度送ってください。"}},
	"body-too-large": {
		problem.Text{
			EN: "The body is longer than the limit that the member detail names. The request did not run.",
			JA: "本文が上限を超えています。上限は detail にあります。実行していません。"},
		problem.Text{
			EN: "Send a smaller body. The same key may be used, since it has no record.",
			JA: "本文を小さくして送ってください。記録は残っていないので、同じキーを使えます。"}},
	"body-unreadable": {
		problem.Text{
			EN: "The connection broke, or the body was shorter than announced. The request did not run.",
			JA: "接続が切れたか、本文が宣言より短かったかです。実行していません。"},
		problem.Text{
			EN: "Send the same request again with the same key.",
			JA: "同じキーで同じリクエストを送ってください。"}},
	"in-progress": {
		problem.Text{
			EN: "The conflict: an attempt with this key is in progress. Nothing more was begun.",
			JA: "競合です。このキーの試行を処理中です。新しくは何も実行していません。"},
		problem.Text{
			EN: "Keep the key and send the same request again after Retry-After. It gets the first one's answer, or runs if that one failed.",
			JA: "キーを変えずに、Retry-After の後に同じリクエストを送ってください。最初の結果が返ります。最初のものが失敗していれば、実行されます。"}},
	"mismatch": {
		problem.Text{
			EN: "The key belongs to a request with another path, query, media type or body. Nothing was done now, and the record of the first request is untouched.",
			JA: "不一致です。このキーは、パス、クエリ、メディアタイプ、本文のどれかが違うリクエストのものです。今回は何も実行しておらず、最初のリクエストの記録はそのままです。"},
		problem.Text{
			EN: "A different request is a new operation: send it with a new key. If it was not meant to differ, the client builds the body anew for each try, with a timestamp for instance: keep the body of the first try.",
			JA: "内容の異なるリクエストは新しい操作です。新しいキーで送ってください。変えたつもりがなければ、クライアントが送るたびに本文を作り直しています(時刻を入れるなど)。最初に送った本文を取っておいてください。"}},
	"store-unavailable": {
		problem.Text{
			EN: "The database that keeps the records cannot answer, and without it no request is let through. Nothing was done.",
			JA: "キーの記録を持つデータベースが応答しません。記録を確かめられないリクエストは通しません。何も実行していません。"},
		problem.Text{
			EN: "Send the same request again later with the same key. The operator finds the cause in the log, under the id in the member instance.",
			JA: "しばらくしてから、同じキーで同じリクエストを送ってください。原因は運用者がログで、instance の id から探せます。"}},
	"commit-unknown": {
		problem.Text{
			EN: "The connection to the database was lost while the request was being committed. It took effect wholly or not at all.",
			JA: "コミットの途中でデータベースとの接続が切れました。すべて反映されたか、何も反映されていないかのどちらかです。"},
		problem.Text{
			EN: "Send the same request again with the same key: it gets the first answer if it took effect, and runs if it did not. A new key could make it take effect twice.",
			JA: "同じキーで同じリクエストを送ってください。反映されていれば最初の結果が返り、いなければ実行されます。新しいキーを使うと、二度反映されるおそれがあります。"}},
	"outcome-unknown": {
		problem.Text{
			EN: "An earlier attempt with this key ended without saying how: its process died, or its work failed after it may have called another system. Nothing was done now.",
			JA: "このキーの以前の試行が、結果の分からないまま終わりました。プロセスが落ちたか、外部を呼び出した可能性のある処理が失敗したかです。今回は何も実行していません。"},
		problem.Text{
			EN: "Waiting and sending again do not help, and a new key may do it twice. Ask the operator, naming the key. Once it is settled, the same request with the same key gets the answer, or runs.",
			JA: "待っても再送しても解決せず、新しいキーで送ると二重になるおそれがあります。キーを添えて運用者に問い合わせてください。決着した後は、同じキーで同じリクエストを送ると、結果が返るか、実行されます。"}},
	"attempt-failed": {
		problem.Text{
			EN: "The server failed while handling the request, after it may have called another system. Whether it took effect is not known.",
			JA: "リクエストの処理中に、サーバーで障害が発生しました。すでに外部を呼び出している可能性があり、反映されたかどうか分かりません。"},
		problem.Text{
			EN: "Do not send it again, with this key or a new one: a new key may do it twice. Ask the operator, naming the key; the cause is in the log, under the id in the member instance.",
			JA: "再送しても解決せず、新しいキーで送ると二重になるおそれがあります。キーを添えて運用者に問い合わせてください。原因は運用者がログで、instance の id から探せます。"}},
	"attempt-repeatable": {
		problem.Text{
			EN: "The server failed before the request was finished. What was done of it is safe to repeat.",
			JA: "リクエストの処理が終わる前に、サーバーで障害が発生しました。済んだ部分は繰り返しても安全です。"},
		problem.Text{
			EN: "Send the same request again later with the same key. A new key may do it twice. If it fails again, the operator finds the cause in the log, under the id in the member instance.",
			JA: "しばらくしてから、同じキーで同じリクエストを送ってください。新しいキーで送ると二重になるおそれがあります。繰り返し失敗する場合、原因は運用者がログで、instance の id から探せます。"}},
	"contention": {
		problem.Text{
			EN: "Each time that the request was run, the database aborted it to keep order between transactions. Nothing was left.",
			JA: "トランザクションどうしの順序を守るために、データベースが処理を中断しました。何度実行しても同じでした。何も残っていません。"},
		problem.Text{
			EN: "Send the same request again later with the same key.",
			JA: "しばらくしてから、同じキーで同じリクエストを送ってください。"}},
	"not-committed": {
		problem.Text{
			EN: "The request was carried out, but the database refused to commit it. Nothing was left.",
			JA: "処理は終わりましたが、データベースがコミットを拒否しました。何も残っていません。"},
		problem.Text{
			EN: "The same key may be used again. If it fails again, the operator finds the cause in the log, under the id in the member instance.",
			JA: "同じキーをもう一度使えます。繰り返し失敗する場合、原因は運用者がログで、instance の id から探せます。"}},
	"handler-failed": {
		problem.Text{
			EN: "The server failed while handling the request. Nothing was left.",
			JA: "リクエストの処理中にサーバーで障害が発生しました。何も残っていません。"},
		problem.Text{
			EN: "The same key may be used again. If it fails again, the operator finds the cause in the log, under the id in the member instance.",
			JA: "同じキーをもう一度使えます。繰り返し失敗する場合、原因は運用者がログで、instance の id から探せます。"}},
	"not-comparable": {
		problem.Text{
			EN: "The request has no fingerprint: what is compared of it could not be read. The member detail says why. It did not run.",
			JA: "リクエストの中の比較する部分を読み取れないため、フィンガープリントを作れません。理由は detail にあります。実行していません。"},
		problem.Text{
			EN: "Correct the request and send it again.",
			JA: "リクエストを直して送ってください。"}},
	"replay-refused": {
		problem.Text{
			EN: "The request took effect before, but its sender may no longer see the answer. Nothing was done now.",
			JA: "リクエストは以前に反映されていますが、今は結果を見る権限がありません。今回は何も実行していません。"},
		problem.Text{
			EN: "Do not send it again with another key: it took effect. Ask for the permission to read the result.",
			JA: "反映済みですので、別のキーで送り直さないでください。結果を見る権限を求めてください。"}},
	"answer-not-kept": {
		problem.Text{
			EN: "The request took effect before, and its answer was too large to be kept. Nothing was done now.",
			JA: "リクエストは以前に反映されていますが、結果は大きすぎるため保存されていません。今回は何も実行していません。"},
		problem.Text{
			EN: "Do not send it again. Read the result, at the Location if there is one.",
			JA: "再送しないでください。Location があれば、そこから結果を取得してください。"}},
	"record-unreadable": {
		problem.Text{
			EN: "The request took effect before, but its record cannot be read: it was stored encrypted under a key that the server no longer has, or it is damaged. Nothing was done now.",
			JA: "リクエストは以前に反映されていますが、記録を読み取れません。暗号鍵がなくなったか、記録が壊れています。今回は何も実行していません。"},
		problem.Text{
			EN: "Do not send it with a new key: that would make it take effect twice. The operator finds the cause in the log, under the id in the member instance.",
			JA: "新しいキーで送ると二度反映されるので、送らないでください。原因は運用者がログで、instance の id から探せます。"}},
	"response-not-storable": {
		problem.Text{
			EN: "The service made an answer that cannot be stored, and so cannot be replayed. Nothing was left.",
			JA: "サービスの作ったレスポンスが保存できない形のため、リプレイできません。何も残っていません。"},
		problem.Text{
			EN: "Report it to the operator: the service must be changed before this request can succeed.",
			JA: "運用者に知らせてください。このリクエストが成功するには、サービスの変更が必要です。"}},

	// of this API
	"not-json": {
		problem.Text{
			EN: "The body is not valid JSON; a member that is there twice counts as invalid too. The member detail says where. Nothing was done.",
			JA: "本文が正しい JSON ではありません。同じ項目が 2 つあるものも誤りです。位置は detail にあります。何も実行していません。"},
		problem.Text{
			EN: "Correct the body. The same key may be used, since it has no record.",
			JA: "本文を直してください。記録は残っていないので、同じキーを使えます。"}},
	"member-invalid": {
		problem.Text{
			EN: "A member of the body breaks a rule; the member detail says which. Numbers are integers greater than 0, texts have 1 to 200 characters. Nothing was done.",
			JA: "本文の項目が規則に合いません。項目と規則は detail にあります。数は 1 以上の整数、文字列は 1〜200 文字です。何も実行していません。"},
		problem.Text{
			EN: "Correct the body. The same key may be used, since it has no record.",
			JA: "本文を直してください。記録は残っていないので、同じキーを使えます。"}},
	"item-unknown": {
		problem.Text{
			EN: "The item_code of the order is not that of an item of the office. Nothing was reserved or charged.",
			JA: "注文の item_code に当たる品目がありません。在庫の確保も請求もしていません。"},
		problem.Text{
			EN: "Take the code from GET /items, and send it as a new operation with a new key: this answer is kept under the old one.",
			JA: "GET /items にあるコードを使い、新しい操作として新しいキーで送ってください。元のキーにはこの結果が保存されています。"}},
	"card-declined": {
		problem.Text{
			EN: "The payment provider declined the card. Nothing was charged, and the stock that the order had taken was given back.",
			JA: "決済サービスがカードを承認しませんでした。請求はしておらず、注文で確保した在庫は戻しました。"},
		problem.Text{
			EN: "Order again with another card and a new key: this answer is kept under the old one.",
			JA: "別のカードで、新しいキーを使って注文し直してください。元のキーにはこの結果が保存されています。"}},
	"out-of-stock": {
		problem.Text{
			EN: "Less is left of the item than was ordered; the member detail says how much. Nothing was reserved or charged.",
			JA: "注文された数だけの在庫がありません。残りの数は detail にあります。在庫の確保も請求もしていません。"},
		problem.Text{
			EN: "Order less, or later, with a new key: this answer is kept under the old one.",
			JA: "数を減らすか、時間を置いて、新しいキーで注文してください。元のキーにはこの結果が保存されています。"}},
	"payment-unavailable": {
		problem.Text{
			EN: "The payment provider does not answer, or answers with a failure. The stock is reserved. Whether the card was charged will be found out by the next attempt; it is not charged twice.",
			JA: "決済サービスが応答しないか、障害を返しています。在庫は確保されています。請求されたかどうかは次の試行で分かります。二重に請求されることはありません。"},
		problem.Text{
			EN: "Send the same request again later with the same key: the order goes on where it stopped, and gets its answer. The server goes on by itself as well, if it is set up to. A new key would be a second order.",
			JA: "しばらくしてから、同じキーで同じリクエストを送ってください。止まったところから注文が進み、結果が返ります。設定されていれば、サーバーも自分で続きを進めます。新しいキーを使うと、別の注文になります。"}},
	"parameter-invalid": {
		problem.Text{
			EN: "A query parameter is not one that the list takes: limit is 1 to 200, cursor comes from the member next of the page before.",
			JA: "クエリパラメーターが正しくありません。limit は 1〜200 です。cursor は前のページの next にあるものです。"},
		problem.Text{
			EN: "Correct it, or follow next from page to page.",
			JA: "直すか、各ページの next をたどってください。"}},
	"token-required": {
		problem.Text{
			EN: "The server asks for a token, and the request has none that it knows. Nothing was done, and nothing stored is shown.",
			JA: "このサーバーにはトークンが必要ですが、リクエストに有効なものがありません。何も実行せず、保存された結果も返していません。"},
		problem.Text{
			EN: "Send the field Authorization with Bearer, a space and the secret of your token. Keys belong to the name of the token: with its new secret, send the same request again with the same key.",
			JA: "Authorization ヘッダーに「Bearer」、空白、トークンの値を続けて送ってください。キーはトークンの名前に属します。トークンの値が変わったときは、新しい値で、同じキーで同じリクエストを送ってください。"}},
	"no-resource": {
		problem.Text{
			EN: "This API has nothing at this path.",
			JA: "この API には、このパスに何もありません。"},
		problem.Text{
			EN: "Correct the path; /openapi.json describes those that there are.",
			JA: "パスを直してください。/openapi.json にすべてのパスの説明があります。"}},
	"no-reservation": {
		problem.Text{
			EN: "No reservation has this number.",
			JA: "この番号の予約はありません。"},
		problem.Text{
			EN: "Take the number from an answer to POST /reservations or from the list, GET /reservations.",
			JA: "番号は POST /reservations の結果か、一覧 GET /reservations にあるものを使ってください。"}},
	"no-order": {
		problem.Text{
			EN: "No order has this number.",
			JA: "この番号の注文はありません。"},
		problem.Text{
			EN: "Take the number from an answer to POST /orders or from the list, GET /orders.",
			JA: "番号は POST /orders の結果か、一覧 GET /orders にあるものを使ってください。"}},
	"method-not-allowed": {
		problem.Text{
			EN: "The path is there, but not with this method.",
			JA: "このパスはありますが、このメソッドは使えません。"},
		problem.Text{
			EN: "Use one of the methods that the field Allow names.",
			JA: "Allow ヘッダーにあるメソッドを使ってください。"}},
	"media-type-unsupported": {
		problem.Text{
			EN: "The body is announced as something other than JSON, or as nothing. Nothing was done.",
			JA: "本文のメディアタイプが JSON ではないか、指定されていません。何も実行していません。"},
		problem.Text{
			EN: "Send JSON, with Content-Type: application/json. The same key may be used.",
			JA: "JSON を Content-Type: application/json を付けて送ってください。同じキーを使えます。"}},
	"other-origin": {
		problem.Text{
			EN: "The browser says that a form of another site was sent here. Such a form could book in the name of whoever looks at it, so it is refused. Nothing was done.",
			JA: "ブラウザーによると、別のサイトのフォームから送信されています。見た人の知らないうちに予約されるおそれがあるため、受け付けません。何も実行していません。"},
		problem.Text{
			EN: "Send the form from the page of this server. A program sends JSON to the API, which is not concerned.",
			JA: "このサーバーのページにあるフォームから送ってください。プログラムからは API に JSON を送ってください(この制限はありません)。"}},
	"internal-fault": {
		problem.Text{
			EN: "The server failed while handling the request. Of a reservation nothing was left; what was done of an order is kept, and is not done twice.",
			JA: "リクエストの処理中にサーバーで障害が発生しました。予約の場合は何も残っていません。注文の場合は済んだ部分が残っており、二重になることはありません。"},
		problem.Text{
			EN: "Send the same request again later, a POST with the same key. If it fails again, the operator finds the cause in the log, under the id in the member instance.",
			JA: "しばらくしてから、同じリクエストを(POST は同じキーで)送ってください。繰り返し失敗する場合、原因は運用者がログで、instance の id から探せます。"}},
	"database-unreachable": {
		problem.Text{
			EN: "The database cannot be reached, or has no room or time. Of a reservation nothing was left; what was done of an order is kept, and is not done twice.",
			JA: "データベースに接続できないか、空きや時間がありません。予約の場合は何も残っていません。注文の場合は済んだ部分が残っており、二重になることはありません。"},
		problem.Text{
			EN: "Send the same request again later, a POST with the same key.",
			JA: "しばらくしてから、同じリクエストを(POST は同じキーで)送ってください。"}},

	// of the payment provider
	"switch-invalid": {
		problem.Text{
			EN: "The provider misbehaves by switches, and does not know this one, or not this value. The member detail says why. Nothing was changed.",
			JA: "スイッチの名前か値が正しくありません。理由は detail にあります。何も変更していません。"},
		problem.Text{
			EN: "Send some of the members that GET /switches shows: slow is a length of time, the others are shares from 0 to 1.",
			JA: "GET /switches にある項目を送ってください。slow は時間の長さ、ほかは 0 から 1 の割合です。"}},
	"no-charge": {
		problem.Text{
			EN: "No charge has this id.",
			JA: "この ID の請求はありません。"},
		problem.Text{
			EN: "Take the id from an answer to POST /charges or from the list, GET /charges.",
			JA: "ID は POST /charges の結果か、一覧 GET /charges にあるものを使ってください。"}},
	"provider-failed": {
		problem.Text{
			EN: "The provider failed, perhaps after it had charged the card.",
			JA: "決済サービスで障害が発生しました。すでに請求した可能性があります。"},
		problem.Text{
			EN: "Send the same request again with the same key: if the card was charged, the answer of that comes. A new key may charge it twice.",
			JA: "同じキーで同じリクエストを送ってください。請求済みなら、その結果が返ります。新しいキーを使うと、二重に請求されるおそれがあります。"}},
	"provider-down": {
		problem.Text{
			EN: "The provider does not work at the moment. Nothing was charged.",
			JA: "決済サービスは現在停止中です。請求はしていません。"},
		problem.Text{
			EN: "Send the same request again later with the same key.",
			JA: "しばらくしてから、同じキーで同じリクエストを送ってください。"}},
}
