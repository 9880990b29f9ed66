package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A mailbox is a file that stands for a mail server: one line of JSON for each mail. It knows no idempotency keys, so a
// mail carries the key of its step, and who sends one looks first whether it is there.
type mailbox struct {
	path string
	mu   sync.Mutex // of this process; the file's lock is between processes
}

// A mail is a line of the mailbox.
type mail struct {
	Key     string    `json:"key"`
	To      string    `json:"to"`
	Subject string    `json:"subject"`
	Order   int64     `json:"order"`
	SentAt  time.Time `json:"sent_at"`
}

// openMailbox returns the absolute path of a mailbox, and makes the file: an order should not find out that there is none when
// its card is charged.
func openMailbox(path string) (absolute string, err error) {
	var file *os.File
	if absolute, err = filepath.Abs(path); err == nil {
		file, err = os.OpenFile(absolute, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return "", fmt.Errorf("the mailbox: %w; name a file that can be written with --mailbox (ICHIDO_MAILBOX)", err)
	}
	return absolute, nil
}

// deliver appends a mail unless one with its key is there. When it returns nil, the mail is on the disk.
func (m *mailbox) deliver(ctx context.Context, letter mail) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the mailbox %s: %w", m.path, err)
		}
	}()
	line, err := json.Marshal(letter)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	file, err := os.OpenFile(m.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // which gives up the lock as well
	if err := lockFile(ctx, file); err != nil {
		return err
	}
	end, sent, err := look(file, letter.Key)
	if err != nil {
		return err
	}
	if !sent {
		_, err = file.WriteAt(append(line, '\n'), end)
	}
	return errors.Join(err, file.Sync()) // whoever wrote it may have died before
}

// look reports whether a mail with a key is in a file, and where the next one goes. A line that was cut off, because its
// writer died or the disk was full, is cut away.
func look(file *os.File, key string) (end int64, sent bool, err error) {
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) > 0:
			return end, sent, file.Truncate(end)
		case errors.Is(err, io.EOF):
			return end, sent, nil
		case err != nil:
			return end, false, err
		}
		end += int64(len(line))
		if sent = sent || bytes.Contains(line, []byte(`"key":"`+key+`"`)); sent {
			return end, true, nil
		}
	}
}

// lockFile waits for the lock of a file, which goes with the file's closing, and with the process.
func lockFile(ctx context.Context, file *os.File) error {
	for {
		locked, err := tryLock(file)
		if locked || err != nil {
			return err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
