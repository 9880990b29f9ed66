package ichido_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ichido-dev/ichido"
)

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// configs are those of the transcripts that need one.
var configs = map[string]ichido.Config{
	"optional.txt": {Optional: true},
	"japanese.txt": {Language: "ja"},
	"limits.txt":   {MaxRequestBody: 20, Stored: ichido.Stored{MaxBody: 20}},
}

// TestTranscripts plays the requests of each file in testdata (lines with >) against a service of its own, and compares
// the answers (lines with <) to the byte. Left out are the field Date, and of requests Host,
// Content-Length and the framing of chunks.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			config := configs[filepath.Base(file)]
			config.ProblemBase = "https://example.com/problems/"
			m, err := ichido.New(newSituations(), principal, &config)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(service(m))
			server.Config.ErrorLog = nil
			server.Start()
			defer server.Close()

			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, server.Listener.Addr().String(), string(want))
			switch {
			case *update:
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			case got != string(want):
				t.Errorf("the transcript is now:\n%s", got)
			}
		})
	}
}

// play sends the requests of a transcript and returns it with the answers that it got.
func play(t *testing.T, address, transcript string) string {
	t.Helper()
	var out, request strings.Builder
	flush := func() {
		if request.Len() > 0 {
			for line := range strings.Lines(exchange(t, address, request.String())) {
				out.WriteString(strings.TrimRight("< "+line, " \r\n") + "\n")
			}
			request.Reset()
		}
	}
	for line := range strings.Lines(transcript) {
		switch {
		case strings.HasPrefix(line, "<"):
			flush()
		case strings.HasPrefix(line, ">"):
			out.WriteString(line)
			request.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, ">"), " "))
		default:
			flush()
			out.WriteString(line)
		}
	}
	flush()
	return out.String()
}

var fault = regexp.MustCompile(`urn:ichido:fault:\w+`)

// exchange sends a request over a connection of its own and returns the answer.
func exchange(t *testing.T, address, request string) string {
	t.Helper()
	head, body, _ := strings.Cut(request, "\n\n")
	body = strings.TrimSuffix(body, "\n")
	head = strings.TrimSuffix(head, "\n") + "\nHost: example.com"
	switch {
	case strings.Contains(head, "Transfer-Encoding: chunked"):
		body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	case !strings.Contains(head, "Content-Length:"):
		head += fmt.Sprint("\nContent-Length: ", len(body))
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	write := func(s string) {
		if _, err := io.WriteString(conn, s); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n")
	answer := ""
	if strings.Contains(head, "Expect: 100-continue") {
		if answer = readAnswer(t, r); !strings.Contains(answer, " 100 ") {
			return answer
		}
	}
	write(body)
	if strings.Contains(head, "Content-Length: 999") { // and that is all
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	return answer + readAnswer(t, r)
}

// readAnswer reads one answer as it is on the wire.
func readAnswer(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var out bytes.Buffer
	length := 0
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && out.Len() == 0 {
			return "(the connection was closed)\n"
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			length, _ = strconv.Atoi(strings.TrimSpace(n))
		}
		if !strings.HasPrefix(line, "Date: ") {
			out.WriteString(line)
		}
		if line == "\r\n" {
			break
		}
	}
	if _, err := io.CopyN(&out, r, int64(length)); err != nil {
		t.Fatal(err)
	}
	if length > 0 && !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	return fault.ReplaceAllString(out.String(), "urn:ichido:fault:…")
}

func principal(r *http.Request) (string, error) {
	switch user := r.Header.Get("X-User"); user {
	case "nobody":
		return "", nil
	case "broken":
		return "", errors.New("the session cannot be read")
	default:
		return "user:" + user, nil
	}
}
