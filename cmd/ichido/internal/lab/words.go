package lab

import "github.com/ichido-dev/ichido/internal/problem"

type text = problem.Text

// wayWords are the names of the ways, what each does, and why one does not apply.
var wayWords = map[string]struct{ name, idea, reason text }{
	"nothing": {
		name: text{EN: "nothing", JA: "何もしない"},
		idea: text{
			EN: "Each request inserts a row, in a transaction.",
			JA: "リクエストごとに、トランザクションの中で行を 1 つ挿入します。"},
	},
	"unique": {
		name: text{EN: "unique constraint", JA: "ユニーク制約"},
		idea: text{
			EN: "`UNIQUE (ordered_by, item)`: a second row of the same user and item is an error, which is answered as 409.",
			JA: "`UNIQUE (ordered_by, item)`。同じ人が同じ品物をもう一度注文すると制約に違反し、409 で答えます。"},
		reason: text{
			EN: "an edit adds no row, so the constraint is not asked",
			JA: "編集では行が増えないので、制約は働かない"},
	},
	"upsert": {
		name: text{EN: "UPSERT", JA: "UPSERT"},
		idea: text{
			EN: "The same constraint, with `ON CONFLICT … DO UPDATE`: a second row becomes an update of the first. It cannot tell new from old, so it always answers 200.",
			JA: "同じ制約に `ON CONFLICT … DO UPDATE` を付けます。2 つ目の行は、1 つ目の更新になります。新しいかどうかを区別できないので、いつも 200 で答えます。"},
	},
	"version": {
		name: text{EN: "optimistic lock", JA: "楽観ロック"},
		idea: text{
			EN: "The item has a version. The form shows it, the request sends it along (`If-Match`), and a write counts it up, if it is still the same; else 412. An order counts up the version of its item, since its own row is not there yet.",
			JA: "品物の行にバージョンを持たせます。フォームが読んだバージョンをリクエストに付け（`If-Match`）、同じときだけ 1 つ進めて書き込みます。違えば 412 です。注文の行はまだないので、注文は品物のバージョンを進めます。"},
	},
	"key": {
		name: text{EN: "idempotency key", JA: "冪等キー"},
		idea: text{
			EN: "ichido: the client names its operation by a key. The key and the answer are committed together with the order.",
			JA: "ichido です。クライアントが操作ごとにキーを決めます。キーとレスポンスは、注文と一緒にコミットされます。"},
	},
}

// scenarioWords are the names of the scenarios and what happens in each.
var scenarioWords = map[string]struct{ name, story text }{
	"twice": {
		name:  text{EN: "sent twice in a row", JA: "続けて 2 回送信"},
		story: text{EN: "Taro presses the button twice.", JA: "太郎がボタンを 2 回押します。"},
	},
	"at-once": {
		name:  text{EN: "ten at once", JA: "同時に 10 回送信"},
		story: text{EN: "One operation arrives ten times. The first to come holds its transaction open until all ten are there.", JA: "1 つの操作が 10 回届きます。最初のものは、10 個そろうまでトランザクションを開いたままにします。"},
	},
	"lost": {
		name:  text{EN: "answer lost, sent again", JA: "レスポンスが失われて再送"},
		story: text{EN: "The order is committed, the connection is cut before the answer, and the client sends again.", JA: "注文はコミットされましたが、レスポンスの前に接続が切れ、クライアントが再送します。"},
	},
	"honest": {
		name:  text{EN: "two equal orders, both meant", JA: "同じ内容の注文が 2 つ、どちらも必要"},
		story: text{EN: "Taro needs one chair, and later another one. He opens the form twice.", JA: "太郎は椅子を 1 脚注文し、後からもう 1 脚注文します。フォームは 2 回開きます。"},
	},
	"edit": {
		name:  text{EN: "two people edit one row", JA: "2 人が同じ行を編集"},
		story: text{EN: "Taro and Hanako open the same form. He changes the name and saves, then she changes the price and saves.", JA: "太郎と花子が同じフォームを開きます。太郎が名前を変えて保存し、続いて花子が価格を変えて保存します。"},
	},
	"crash": {
		name:  text{EN: "killed in the middle, sent again", JA: "途中で強制終了して再送"},
		story: text{EN: "The server is a process that gets SIGKILL between the INSERT and the COMMIT. The client sends again, to another server. (A kill after the COMMIT loses the answer: that is “answer lost”.) Tried once.", JA: "サーバーのプロセスを、INSERT と COMMIT の間に SIGKILL で終了します。クライアントは別のサーバーに再送します（COMMIT の後なら、「レスポンスが失われて再送」と同じです）。試すのは 1 回です。"},
	},
}

// seenWords say what a user is left with.
var seenWords = map[string]text{
	"same":        {EN: "the same answer", JA: "同じレスポンス"},
	"each":        {EN: "an answer to each", JA: "それぞれのレスポンス"},
	"answered":    {EN: "an answer to the second sending", JA: "再送へのレスポンス"},
	"stale":       {EN: "an error: it has changed meanwhile", JA: "エラー（先に変更されている）"},
	"error":       {EN: "an error, though it was done", JA: "登録済みなのにエラー"},
	"other":       {EN: "another answer", JA: "別のレスポンス"},
	"double":      {EN: "success; too many orders", JA: "成功（注文が多すぎる）"},
	"refused":     {EN: "an error; an order is refused", JA: "エラー（必要な注文が断られる）"},
	"swallowed":   {EN: "success; an order is missing", JA: "成功（注文が 1 つ足りない）"},
	"overwritten": {EN: "success; a change is overwritten", JA: "成功（変更が上書きされる）"},
}

// verdictWords are marks and what they mean.
var verdictWords = map[string]struct {
	mark  string
	means text
}{
	"right": {"✓", text{EN: "right", JA: "正しい"}},
	"told":  {"△", text{EN: "the rows are right, the answer is not", JA: "行は正しいが、レスポンスが正しくない"}},
	"wrong": {"✗", text{EN: "the rows are wrong", JA: "行が正しくない"}},
	"":      {"–", text{EN: "does not apply", JA: "当てはまらない"}},
}

// surpriseWords explain the surprises. Where the databases differ, sqlite has SQLite's part.
var surpriseWords = map[string]struct{ title, pg, sqlite text }{
	"gaps": {
		title: text{EN: "Numbers are used up by what fails", JA: "失敗しても番号は使われる"},
		pg: text{
			EN: "A sequence counts outside of transactions. The INSERT that failed, the one that was rolled back and the UPSERT that only updated took a number each. Gaps in ids say nothing about lost rows; do not use ids where the law wants numbers without gaps.",
			JA: "シーケンスはトランザクションの外で進みます。失敗した INSERT、ロールバックした INSERT、更新しかしなかった UPSERT が、それぞれ番号を 1 つ使いました。番号が飛んでいても、行が失われたわけではありません。連番が必要な伝票番号などには使えません。"},
		sqlite: text{
			EN: "SQLite keeps the count in a table, so that a failure and a ROLLBACK give their numbers back; an UPSERT that only updates still takes one. PostgreSQL's sequences give nothing back.",
			JA: "SQLite は番号をテーブルで数えるので、失敗や ROLLBACK では番号が戻ります。それでも、更新しかしなかった UPSERT は番号を 1 つ使いました。PostgreSQL のシーケンスでは、どの番号も戻りません。"},
	},
	"bytes": {
		title: text{EN: "JSON in the database is not the JSON that was sent", JA: "データベースの JSON は、送った JSON と同じではない"},
		pg: text{
			EN: "jsonb keeps what JSON means: members in an order of its own, other spaces, one of two members of the same name. An answer that is kept as jsonb is not replayed to the byte: signatures and digests over it break. ichido keeps bytes.",
			JA: "jsonb が保存するのは JSON の意味です。メンバーの順序と空白は変わり、同じ名前のメンバーは 1 つになります。レスポンスを jsonb で保存すると、バイト単位では再生できず、署名やダイジェストが合わなくなります。ichido はバイト列のまま保存します。"},
		sqlite: text{
			EN: "json() rewrites the spaces. PostgreSQL's jsonb also changes the order of members and drops one of two of the same name. An answer that is kept so is not replayed to the byte: signatures and digests over it break. ichido keeps bytes.",
			JA: "json() は空白を書き換えます。PostgreSQL の jsonb では、メンバーの順序も変わり、同じ名前のメンバーは 1 つになります。このように保存したレスポンスは、バイト単位では再生できず、署名やダイジェストが合わなくなります。ichido はバイト列のまま保存します。"},
	},
	"aborted": {
		title: text{EN: "After one error, the rest of the transaction", JA: "エラーの後のトランザクション"},
		pg: text{
			EN: "An error aborts the whole transaction: what follows is refused, and COMMIT answers ROLLBACK without an error. Who wants to go on after a unique violation needs a savepoint, or ON CONFLICT.",
			JA: "エラーが起きると、トランザクション全体が中断されます。続く文は拒否され、COMMIT はエラーにならずに ROLLBACK と答えます。ユニーク制約の違反の後に続けるには、セーブポイントか ON CONFLICT が必要です。"},
		sqlite: text{
			EN: "On SQLite only the statement fails, and the rest is committed. PostgreSQL refuses all that follows, and its COMMIT answers ROLLBACK: code that was tried on one of them may lose rows on the other. The savepoint is right on both.",
			JA: "SQLite では失敗するのはその文だけで、残りはコミットされます。PostgreSQL では続く文がすべて拒否され、COMMIT は ROLLBACK と答えます。片方で試したコードは、もう片方で行を失うかもしれません。セーブポイントなら、どちらでも正しく動きます。"},
	},
	"nothing-returned": {
		title: text{EN: "DO NOTHING returns nothing", JA: "DO NOTHING は何も返さない"},
		pg: text{
			EN: "The second INSERT succeeds, makes no row and returns none. The id for the answer has to be looked up by another statement. A SELECT beside the INSERT, in one WITH, does not see a row that another transaction committed while the INSERT waited for it.",
			JA: "2 回目の INSERT は成功しますが、行を作らず、何も返しません。レスポンスに使う id は別の文で探すことになります。1 つの WITH で INSERT と SELECT を並べると、INSERT が待っている間にほかのトランザクションがコミットした行は、その SELECT では見えません。"},
		sqlite: text{
			EN: "The second INSERT succeeds, makes no row and returns none. The id for the answer has to be looked up by another statement.",
			JA: "2 回目の INSERT は成功しますが、行を作らず、何も返しません。レスポンスに使う id は別の文で探すことになります。"},
	},
	"null": {
		title: text{EN: "NULL is not a duplicate of NULL", JA: "NULL どうしは重複にならない"},
		pg: text{
			EN: "A constraint over a column that may be NULL lets both rows in. Make the columns NOT NULL (PostgreSQL 15 also has UNIQUE NULLS NOT DISTINCT).",
			JA: "NULL になり得る列の制約では、両方の行が入ります。列を NOT NULL にしてください（PostgreSQL 15 以降には UNIQUE NULLS NOT DISTINCT もあります）。"},
	},
	"look-first": {
		title: text{EN: "Looking first does not help", JA: "先に調べても防げない"},
		pg: text{
			EN: "Both look, both find nothing, both insert: two rows, in two transactions that each did right. Only a constraint (or SERIALIZABLE) sees both.",
			JA: "2 つとも調べ、2 つとも見つからず、2 つとも挿入しました。どちらのトランザクションにも誤りはありませんが、行は 2 つです。両方を見られるのは、制約（または SERIALIZABLE）だけです。"},
		sqlite: text{
			EN: "SQLite refuses to write what was decided by an old reading (SQLITE_BUSY_SNAPSHOT, 517), and the request fails. PostgreSQL, at its default isolation level, lets both rows in. Only a constraint is right on both.",
			JA: "SQLite は、古い読み取りに基づく書き込みを拒否し（SQLITE_BUSY_SNAPSHOT、517）、リクエストは失敗します。PostgreSQL の標準の分離レベルでは、両方の行が入ります。どちらでも正しいのは、制約だけです。"},
	},
	"other-effects": {
		title: text{EN: "UPSERT makes one row idempotent, not the transaction", JA: "UPSERT で冪等になるのは 1 行だけ"},
		pg: text{
			EN: "The same request twice: one reservation, but the stock is taken twice. Whatever else the transaction does happens again. With a key, the second sending does not run at all.",
			JA: "同じリクエストを 2 回送ると、予約は 1 つですが、在庫は 2 回減りました。トランザクションのほかの処理は、もう一度行われます。キーがあれば、2 回目は実行されません。"},
	},
	"late": {
		title: text{EN: "An UPSERT that is sent again late undoes what came between", JA: "遅れて再送された UPSERT は、間の変更を取り消す"},
		pg: text{
			EN: "A set dark, and the answer was lost. Somebody set light. Then A's sending came again, and it is dark, though light was the last that anybody chose. With a key the repeat does not run; with a version it is refused.",
			JA: "A が dark に設定し、レスポンスが失われました。次に別の人が light に設定しました。その後に A の再送が届き、dark に戻りました。最後に選ばれたのは light です。キーがあれば再送は実行されず、バージョンがあれば断られます。"},
	},
	"strangers": {
		title: text{EN: "A version refuses strangers, too", JA: "バージョンは無関係な人も断る"},
		pg: text{
			EN: "A and B are two people who both want a chair, and there are enough. B is refused because A was faster: the version belongs to the item, and not to the operation.",
			JA: "A と B は別の人で、椅子は十分にあります。それでも、A が先だったので B は断られました。バージョンは品物のもので、操作のものではないからです。"},
	},
}

// A piece of evidence is a cell of the table.
type evidence struct{ way, scenario string }

// advice is what to choose, by the questions that decide.
var advice = []struct {
	question, answer text
	by               []evidence
}{
	{
		question: text{EN: "Does the thing have a natural unique value?", JA: "それだけで区別できる値が、もともとあるか？"},
		answer: text{
			EN: "(An order number, an e-mail address, the id of an event.) Then put a unique constraint on it, whatever else you do: it holds whoever writes. It alone answers a repeat with an error. Do not make such a value up: “one per user and item” refuses what was meant.",
			JA: "（注文番号、メールアドレス、イベントの id など。）あれば、ほかに何をするにしても、ユニーク制約を付けます。誰が書き込んでも守られるからです。ただし、それだけでは再送にエラーで答えます。値を無理に作ってはいけません。「1 人 1 品物に 1 つ」という制約は、必要な注文を断ります。"},
		by: []evidence{{"unique", "twice"}, {"unique", "honest"}},
	},
	{
		question: text{EN: "Is it right that the last one wins?", JA: "後のもので上書きしてよいか？"},
		answer: text{
			EN: "(A setting, a profile, the present state of something.) Then UPSERT, by PUT: it may be sent as often as you like, as long as nobody writes in between: a repeat that comes late brings its old value back. Not for orders, of which two are more than one, and not if the transaction does anything else.",
			JA: "（設定、プロフィール、何かの現在の状態など。）よければ UPSERT を、PUT で使います。間にほかの書き込みがなければ、何度送ってもかまいません。遅れて届いた再送は、古い値に戻します。2 つあれば 2 つである注文には使えません。トランザクションでほかのこともする場合にも使えません。"},
		by: []evidence{{"upsert", "twice"}, {"upsert", "honest"}},
	},
	{
		question: text{EN: "Do several people edit the same row?", JA: "同じ行を複数の人が編集するか？"},
		answer: text{
			EN: "Then a version column, and an error that lets the second one look again. None of the others keeps a change from being overwritten: a key recognises one operation that is sent again, and these are two. A repeat of your own save gets that error, too; a key in addition gives it the first answer.",
			JA: "するなら、バージョンの列を持たせ、後の人にはエラーを返して見直してもらいます。変更の上書きは、ここで試したほかの方法では防げません。キーが見分けるのは 1 つの操作の再送で、これは 2 つの操作だからです。自分の保存を再送したときも同じエラーになります。キーを併用すれば、最初のレスポンスが返ります。"},
		by: []evidence{{"key", "edit"}, {"version", "edit"}, {"version", "lost"}},
	},
	{
		question: text{EN: "Must who sends again get the first answer?", JA: "再送した人に、最初のレスポンスを返す必要があるか？"},
		answer: text{
			EN: "(An app on a bad connection, a client that retries, a webhook.) Then an idempotency key: only the sender knows whether two equal requests are one operation or two, and the key says so.",
			JA: "（電波の悪いところのアプリ、再試行するクライアント、Webhook など。）あれば、冪等キーを使います。同じ内容の 2 つのリクエストが 1 つの操作なのか 2 つの操作なのかは、送る側にしか分かりません。それを伝えるのがキーです。"},
		by: []evidence{{"key", "lost"}, {"key", "at-once"}, {"key", "honest"}},
	},
	{
		question: text{EN: "Does the work leave the database?", JA: "処理がデータベースの外に及ぶか？"},
		answer: text{
			EN: "(A payment, a mail, a message to another system.) A transaction rolls back its rows after a crash, which is why all of the ways come through it here; it does not roll back a payment. That takes a key that the other side knows as well: lease mode and steps of ichido. It was not tried here.",
			JA: "（支払い、メール、ほかのシステムへの通知など。）途中で落ちてもトランザクションの行は元に戻ります。ここでどの方法も強制終了に耐えたのはそのためです。しかし、支払いは元に戻りません。それには、相手も知っているキーが要ります。ichido のリースモードとステップです。ここでは試していません。"},
		by: []evidence{{"nothing", "crash"}, {"key", "crash"}},
	},
}

// words are all other texts.
var words = map[string]text{
	"title":          {EN: "Four ways against double registration", JA: "二重登録を防ぐ 4 つの方法"},
	"intro":          {EN: "A user orders a chair. The same things happen to servers that each do something else about it, or nothing. Every number was counted in this run: the rows in the database, the answers as a client got them over HTTP, the statements as the driver sent them.", JA: "利用者が椅子を 1 脚注文します。何もしないサーバーと、それぞれ別の方法で防ぐサーバーに、同じことが起こります。数字はすべて、この実行で数えたものです。行はデータベースの中、レスポンスは HTTP でクライアントが受け取ったもの、SQL 文はドライバーが送ったものです。"},
	"measured":       {EN: "Measured on %s. Statements and times are the median of %d runs.", JA: "%s で測定。SQL 文の数と時間は %d 回の中央値です。"},
	"ways":           {EN: "The ways", JA: "方法"},
	"glance":         {EN: "At a glance", JA: "一覧"},
	"results":        {EN: "What was counted", JA: "数えた結果"},
	"surprises":      {EN: "Surprises", JA: "意外なこと"},
	"advice":         {EN: "What to choose", JA: "どれを選ぶか"},
	"tutorial":       {EN: "Step by step", JA: "1 つずつ"},
	"scenario":       {EN: "scenario", JA: "場面"},
	"way":            {EN: "way", JA: "方法"},
	"rows":           {EN: "rows made", JA: "できた行"},
	"lost":           {EN: "updates lost", JA: "失われた更新"},
	"sees":           {EN: "what the user sees", JA: "利用者に見えるもの"},
	"statements":     {EN: "statements", JA: "SQL 文"},
	"time":           {EN: "time", JA: "時間"},
	"right-rows":     {EN: "right: %d", JA: "正しくは %d"},
	"right-edit":     {EN: "right: no update lost", JA: "正しくは、失われた更新 0"},
	"legend":         {EN: "“Replay”: answered from the record. “Lost”: made, but the client did not get it. Statements: all that the server sent for these requests, BEGIN and COMMIT included; opening a form is not counted. Time: how long the clients waited for answers.", JA: "「リプレイ」は、記録から答えたことを表します。「紛失」は、レスポンスが作られたのにクライアントに届かなかったことを表します。SQL 文は、これらのリクエストのためにサーバーが送ったもので、BEGIN と COMMIT を含みます。フォームを開くための読み取りは数えません。時間は、クライアントがレスポンスを待った時間です。"},
	"varied":         {EN: "not every run had the same counts; the worst is shown", JA: "数は実行ごとに異なったので、最も悪いものを示す"},
	"replay":         {EN: "replay", JA: "リプレイ"},
	"withheld":       {EN: "lost", JA: "紛失"},
	"none":           {EN: "no answer", JA: "レスポンスなし"},
	"inapplies":      {EN: "does not apply: %s", JA: "当てはまらない: %s"},
	"combine":        {EN: "They go together: a constraint on what is unique, a version on what people edit, keys on what clients send.", JA: "組み合わせて使えます。ユニークなものには制約を、人が編集するものにはバージョンを、クライアントが送るものにはキーを付けてください。"},
	"seen":           {EN: "Seen here: ", JA: "ここで見たこと: "},
	"follow-pg":      {EN: "To follow it, make a schema of your own, and open a session of psql for each sender:", JA: "自分で試すには、専用のスキーマを作り、送信者ごとに psql を開きます。"},
	"follow-lite":    {EN: "To follow it, open a new file with sqlite3, once for each sender:", JA: "自分で試すには、送信者ごとに sqlite3 で新しいファイルを開きます。"},
	"empty":          {EN: "Before each of the following, empty them (idempotency_keys where it is):", JA: "以下のそれぞれの前に、テーブルを空に戻します（idempotency_keys は、あるときだけ）。"},
	"tables":         {EN: "The tables of each way, one way at a time:", JA: "方法ごとのテーブルです。1 つの方法ずつ試します。"},
	"opens":          {EN: "opens the form", JA: "フォームを開く"},
	"sends":          {EN: "sends", JA: "送信"},
	"killed":         {EN: "sends; the server is killed here", JA: "送信（ここでサーバーを強制終了）"},
	"like-this":      {EN: "%d requests like this one", JA: "同じものが %d リクエスト"},
	"no-sql":         {EN: "no statement", JA: "SQL 文はなし"},
	"in-table":       {EN: "orders in the table: %d, right: %d", JA: "表にある注文: %d（正しくは %d）"},
	"lost-edits":     {EN: "updates lost: %d", JA: "失われた更新: %d"},
	"generated-pg":   {EN: "This page is written by `ichido lab --markdown`, here on PostgreSQL (`--db`); without `--db` it tries the same on SQLite. `--explain` shows the SQL of each step.", JA: "このページは `ichido lab --markdown` の出力です。ここでは PostgreSQL で実行しました（`--db`）。`--db` を付けなければ SQLite で試します。`--explain` を付けると、各段階の SQL を表示します。"},
	"generated-lite": {EN: "This page is written by `ichido lab --markdown`, here on SQLite; `--db postgres://…` tries the same on PostgreSQL. `--explain` shows the SQL of each step.", JA: "このページは `ichido lab --markdown` の出力です。ここでは SQLite で実行しました。`--db postgres://…` を付けると PostgreSQL で試します。`--explain` を付けると、各段階の SQL を表示します。"},
	"others":         {EN: "[日本語](ja/choosing.md)", JA: "[English](../choosing.md)"},
	"further":        {EN: "More: [decisions.md](decisions.md) before using keys, [external-calls.md](external-calls.md) and [steps.md](steps.md) for work that leaves the database.", JA: "さらに詳しくは、キーを使う前に決めることを [decisions.md](decisions.md)、データベースの外に及ぶ処理を [external-calls.md](external-calls.md) と [steps.md](steps.md) に書いています。"},
	"session":        {EN: "A and B are two connections.", JA: "A と B は 2 つの接続です。"},
}
