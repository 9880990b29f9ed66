package client

var RetryAfter = retryAfter

// Buckets returns of how many hosts a budget is remembered.
func Buckets(t *Transport) int {
	t.buckets.mu.RLock()
	defer t.buckets.mu.RUnlock()
	return len(t.buckets.of)
}
