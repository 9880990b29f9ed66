// Package landscape grades what others offer, on servers that follow their own instructions and defaults, and writes
// docs/landscape.md of it:
//
//	go test ./internal/landscape -run TestLandscape -update
//
// Without -update the test compares the verdicts with those in the document. It is a module of its own, so that nobody
// else gains what it grades. The servers in Node.js are installed by npm into .cache.
package landscape
