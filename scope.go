package ichido

import (
	"net/http"
	"net/url"
	"strings"
)

// scopeOf returns the scope of a request: principal, method and route, as in "taro POST /reservations". The route is
// the pattern under which the handler is registered at a http.ServeMux, else the path. Spaces in the principal are
// escaped, so that no principal can pose as another one's route. Under Config.AcrossRoutes it is the principal alone.
func (m *Manager) scopeOf(r *http.Request) (string, error) {
	principal, err := m.scope(r)
	if err != nil {
		return "", err
	}
	if principal == "" {
		return "", errNoPrincipal
	}
	if m.config.AcrossRoutes {
		return escapePrincipal(principal), nil
	}
	return escapePrincipal(principal) + " " + r.Method + " " + route(r), nil
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
