package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// An Operation is what is to take effect once: all of its sendings, over restarts of the program too, carry its key.
// One operation is one request; a second request needs a second operation.
type Operation struct {
	// Key is what the server recognises the operation by.
	Key string
	// Name tells people which operation it is, as in "order 4711". It is part of error texts and never sent.
	Name string
	// Started is when the operation was first to be sent. Zero is unknown. With it an operation is not sent any more
	// once the server may have forgotten its key ([Target].Retention); the Repeatability-First-Sent of [OASIS] is it.
	Started time.Time
}

// NewOperation returns an operation with a new random key, a UUID of version 4. All targets accept it but those that
// limit keys to fewer than 36 characters; [Target.NewOperation] is for these.
func NewOperation() Operation { return Operation{Key: newUUID(), Started: time.Now()} }

// OperationFromKey returns the operation with a key that was made before, or that follows from what is done, such as the
// id of an order.
func OperationFromKey(key string) Operation { return Operation{Key: key} }

// String names the operation without giving its key away: by Name and the beginning of the key's SHA-256.
func (o Operation) String() string {
	if o.Key == "" {
		return "operation without a key"
	}
	sum := sha256.Sum256([]byte(o.Key))
	hash := hex.EncodeToString(sum[:4])
	if o.Name != "" {
		return "operation " + o.Name + " (" + hash + ")"
	}
	return "operation " + hash
}

// LogValue is String, so that a log does not hold keys.
func (o Operation) LogValue() slog.Value { return slog.StringValue(o.String()) }

type operationKey struct{}

// WithOperation returns a context under which a [Transport] sends a request as op. It is for one request: two different
// ones under one key are a mismatch.
func WithOperation(ctx context.Context, op Operation) context.Context {
	return context.WithValue(ctx, operationKey{}, op)
}

// OperationFrom returns the operation that WithOperation put into ctx.
func OperationFrom(ctx context.Context) (Operation, bool) {
	op, ok := ctx.Value(operationKey{}).(Operation)
	return op, ok
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string { return newQuotedUUID()[1:37] }

// newQuotedUUID returns one in quotes.
func newQuotedUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	text := [38]byte{0: '"', 9: '-', 14: '-', 19: '-', 24: '-', 37: '"'}
	hex.Encode(text[1:9], b[0:4])
	hex.Encode(text[10:14], b[4:6])
	hex.Encode(text[15:19], b[6:8])
	hex.Encode(text[20:24], b[8:10])
	hex.Encode(text[25:37], b[10:16])
	return string(text[:])
}

// newHex32 returns the 32 hexadecimal digits of a random UUID.
func newHex32() string { return strings.ReplaceAll(newUUID(), "-", "") }

// quote writes a key as a String of RFC 9651.
func quote(key string) string {
	if !strings.ContainsAny(key, `"\`) {
		return `"` + key + `"`
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// unquote returns the key in the value of a field: what is within quotes, or the value itself if it has none.
func unquote(value string) (string, error) {
	if !strings.HasPrefix(value, `"`) {
		return value, nil
	}
	var key strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"' && i == len(value)-1:
			return key.String(), nil
		case c == '"':
			return "", fmt.Errorf("something follows its closing quote at character %d", i+1)
		case c == '\\':
			if i++; i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", fmt.Errorf("its backslash at character %d escapes neither a quote nor a backslash", i)
			}
			key.WriteByte(value[i])
		default:
			key.WriteByte(c)
		}
	}
	return "", errors.New("its closing quote is missing")
}
