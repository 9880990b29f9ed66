package ichido

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
)

// scopeOf returns the scope of a request: principal, method and route, as in "taro POST /reservations". The route is
// the pattern under which the handler is registered at a http.ServeMux, else the path. Spaces in the principal are
// escaped, so that no principal can pose as another one's route. Under Config.AcrossRoutes it is the principal alone.
func (m *Manager) scopeOf(r *http.Request) (scope, principal string, err error) {
	principal, err = m.scope(r)
	if err != nil {
		return "", "", err
	}
	if principal == "" {
		return "", "", errNoPrincipal
	}
	if m.config.AcrossRoutes {
		return bounded(escapePrincipal(principal)), principal, nil
	}
	return bounded(escapePrincipal(principal)) + " " + r.Method + " " + bounded(route(r)), principal, nil
}

// bounded keeps a part of the scope short enough for an index: of a long one it keeps the beginning and the digest.
func bounded(part string) string {
	const limit = 512
	if len(part) <= limit {
		return part
	}
	sum := sha256.Sum256([]byte(part))
	return part[:limit-2*len(sum)-1] + "~" + hex.EncodeToString(sum[:])
}

func escapePrincipal(s string) string {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '%' {
			return url.PathEscape(s)
		}
	}
	return s
}

func route(r *http.Request) string {
	if r.Pattern == "" {
		return r.URL.EscapedPath()
	}
	if _, rest, ok := strings.Cut(r.Pattern, " "); ok {
		return strings.TrimLeft(rest, " \t")
	}
	return r.Pattern
}
