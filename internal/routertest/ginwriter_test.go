package routertest

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// A ginWriter is a gin.ResponseWriter over another one, as gin's own is, which cannot be had from outside. Like that it
// sends the status with the first byte of the body, or by WriteHeaderNow.
type ginWriter struct {
	http.ResponseWriter
	outer  gin.ResponseWriter // for CloseNotify
	status int
	size   int // -1 until the status was sent
}

func (w *ginWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
func (w *ginWriter) Status() int                 { return w.status }
func (w *ginWriter) Size() int                   { return w.size }
func (w *ginWriter) Written() bool               { return w.size >= 0 }

func (w *ginWriter) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status = status
	}
}

func (w *ginWriter) WriteHeaderNow() {
	if !w.Written() {
		w.size = 0
		w.ResponseWriter.WriteHeader(w.status)
	}
}

func (w *ginWriter) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	n, err := w.ResponseWriter.Write(p)
	w.size += n
	return n, err
}

func (w *ginWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *ginWriter) Flush() {
	w.WriteHeaderNow()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

func (w *ginWriter) CloseNotify() <-chan bool { return w.outer.CloseNotify() }
func (w *ginWriter) Pusher() http.Pusher      { return nil }
