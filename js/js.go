// Package js has the client for browsers as files, for servers that serve it themselves:
//
//	http.Handle("GET /js/", http.StripPrefix("/js/", http.FileServerFS(js.Files)))
package js

import "embed"

// Files are ichido.js, the client, and webstore.js, a store for it that is kept as long as its tab.
//
//go:embed ichido.js webstore.js
var Files embed.FS
