package client_test

import (
	"testing"

	"github.com/ichido-dev/ichido/client"
)

func newTransport(t *testing.T, config *client.Config) *client.Transport {
	t.Helper()
	tr, err := client.NewTransport(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}
