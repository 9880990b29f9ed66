module github.com/ichido-dev/ichido/internal/jstest

go 1.26.0

require (
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.1
	github.com/ichido-dev/ichido v0.1.0
)

require github.com/go-json-experiment/json v1.27.2 // indirect
