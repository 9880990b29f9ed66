package client

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter returns how long an answer asks to wait (RFC 9110, section 10.2.3): seconds, or a date, which is compared with
// the Date of the same answer where there is one, so that the clocks of two hosts are not. A date that has passed is zero.
// Of several lines the longest counts; what is neither form is as if it were not there.
func retryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, line := range h["Retry-After"] {
		if w, valid := parseRetryAfter(strings.Trim(line, " \t"), h, now); valid {
			wait, ok = max(wait, w), true
		}
	}
	return wait, ok
}

func parseRetryAfter(value string, h http.Header, now time.Time) (time.Duration, bool) {
	if digits := strings.TrimLeft(value, "0123456789"); digits == "" && value != "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64, true // more than can be counted is more than anybody waits
		}
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return max(0, date.Sub(now)), true
}
