package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/ichido-dev/ichido"
	"github.com/ichido-dev/ichido/internal/problem"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tokensFlag is the value of --token: name=secret pairs as they were given. It refuses nothing: the errors of flags
// repeat the value, and this one has secrets in it. parseTokens refuses what is wrong.
type tokensFlag struct{ pairs *[]string }

var _ pflag.Value = tokensFlag{}

func (f tokensFlag) String() string { return "" } // not to be printed

func (f tokensFlag) Set(text string) error {
	*f.pairs = append(*f.pairs, strings.Split(text, ",")...)
	return nil
}

func (f tokensFlag) Type() string { return "name=secret" }

func addTokensFlag(cmd *cobra.Command, pairs *[]string) {
	cmd.Flags().Var(tokensFlag{pairs}, "token", "ask for a token; its name is the principal to whom keys belong. Repeat it for more, or separate by commas. "+
		"Other users of the host see flags; the variable is private")
	bindVariable(cmd, "token", "ICHIDO_TOKENS")
}

// tokens are those that clients may present. None means that nobody is asked for one.
type tokens struct {
	names []string
	sums  [][sha256.Size]byte // of the secrets
}

const minSecret = 16 // characters

var (
	tokenName   = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)
	tokenSecret = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`) // RFC 6750, b64token
)

// parseTokens reads name=secret pairs. Its errors count the tokens and quote nothing: what is wrong may be that the
// secret stands where the name belongs.
func parseTokens(pairs []string) (tokens, error) {
	var t tokens
	for i, pair := range pairs {
		name, secret, ok := strings.Cut(pair, "=")
		sum := sha256.Sum256([]byte(secret))
		var wrong string
		switch {
		case !ok:
			wrong = "is not name=secret"
		case !tokenName.MatchString(name):
			wrong = "has a name that is not 1 to 64 letters, digits or any of . _ @ -"
		case len(secret) < minSecret:
			wrong = fmt.Sprintf("has a secret of %d characters; at least %d are needed, as from: openssl rand -hex 32", len(secret), minSecret)
		case !tokenSecret.MatchString(secret):
			wrong = "has a secret that cannot be sent; it may have letters, digits and any of . _ ~ + / -, and = at its end"
		}
		for j := range i {
			switch {
			case wrong != "":
			case t.names[j] == name:
				wrong = fmt.Sprintf("has the name of number %d; each needs its own", j+1)
			case t.sums[j] == sum:
				wrong = fmt.Sprintf("has the secret of number %d; each needs its own", j+1)
			}
		}
		if wrong != "" {
			return tokens{}, usageError(fmt.Errorf("--token (ICHIDO_TOKENS): number %d %s", i+1, wrong))
		}
		t.names, t.sums = append(t.names, name), append(t.sums, sum)
	}
	return t, nil
}

func (t tokens) needed() bool { return len(t.names) > 0 }

// principal returns the name of the token with a secret. How long it takes does not depend on the secret.
func (t tokens) principal(secret string) (name string, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	found := -1
	for i := range t.sums {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], t.sums[i][:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return t.names[found], true
}

// scope is the ichido.ScopeFunc of the tokens: a key belongs to the name, so that a secret can be replaced.
func (t tokens) scope() ichido.ScopeFunc {
	if !t.needed() {
		return ichido.Shared
	}
	return func(r *http.Request) (string, error) {
		name, ok := r.Context().Value(principalKey{}).(string)
		if !ok {
			return "", errors.New("no token was checked")
		}
		return name, nil
	}
}

type principalKey struct{}

// authenticated asks for a token in front of next: first requests and replays alike.
func (a *api) authenticated(next http.Handler) http.Handler {
	if !a.tokens.needed() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret, sent := bearer(r.Header)
		name, ok := a.tokens.principal(secret)
		switch {
		case !sent:
			w.Header().Set("WWW-Authenticate", "Bearer")
		case !ok:
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		if !sent || !ok {
			a.refuse(w, r, tokenRequired, problem.Text{})
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, name)))
	})
}

// bearer returns what an Authorization field (RFC 6750, section 2.1) presents. Two fields present nothing.
func bearer(h http.Header) (secret string, sent bool) {
	fields := h.Values("Authorization")
	if len(fields) != 1 {
		return "", false
	}
	scheme, secret, ok := strings.Cut(fields[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.Trim(secret, " "), true
}
