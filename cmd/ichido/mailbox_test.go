package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// readMails reads a mailbox, of which every line must be a mail.
func readMails(t *testing.T, path string) (mails []mail) {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var m mail
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil || m.Key == "" {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		mails = append(mails, m)
	}
	return mails
}

// However many send a mail at once, from several processes, it is there once. Each mailbox here locks the file anew, as
// another process would.
func TestMailIsDeliveredOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mails")
	const senders, keys = 4, 8
	var wg sync.WaitGroup
	for sender := range senders {
		box := &mailbox{path: path}
		for i := range keys {
			for _, key := range []string{fmt.Sprint("k", i), fmt.Sprint("of ", sender, " ", i)} { // one of all, one of its own
				wg.Go(func() {
					if err := box.deliver(t.Context(), mail{Key: key, Order: int64(i)}); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	wg.Wait()
	seen := make(map[string]int)
	for _, m := range readMails(t, path) {
		seen[m.Key]++
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", key, n)
		}
	}
	if want := keys + senders*keys; len(seen) != want {
		t.Errorf("%d mails, want %d", len(seen), want)
	}
}

func TestMailThatWasCutOffIsWrittenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mails")
	box := &mailbox{path: path}
	for _, key := range []string{"a", "b"} {
		if err := box.deliver(t.Context(), mail{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(whole)-1)); err != nil { // all but the line's end
		t.Fatal(err)
	}
	for _, key := range []string{"b", "c", "a"} {
		if err := box.deliver(t.Context(), mail{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, m := range readMails(t, path) {
		got = append(got, m.Key)
	}
	if fmt.Sprint(got) != "[a b c]" {
		t.Errorf("%q", got)
	}
}

func TestMailWaitsForTheLockOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mails")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if locked, err := tryLock(file); !locked || err != nil {
		t.Fatal(locked, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errUnreachable)
	box := &mailbox{path: path}
	if err := box.deliver(ctx, mail{Key: "k"}); !errors.Is(err, errUnreachable) || len(readMails(t, path)) != 0 {
		t.Errorf("delivered into a file that is locked: %v", err)
	}
	delivered := later(func() error { return box.deliver(t.Context(), mail{Key: "k"}) })
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, delivered, "the mail"); err != nil || len(readMails(t, path)) != 1 {
		t.Errorf("%v", err)
	}
}
