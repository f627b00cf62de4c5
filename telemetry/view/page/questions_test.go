package page

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// questions passes on what a page asks, and notes it.
type questions struct {
	silent atomic.Bool // no question is answered: the connection ends

	lock  sync.Mutex
	asked []string
}

func (q *questions) of(server *httptest.Server) http.Handler {
	to, err := url.Parse(server.URL)
	if err != nil {
		panic(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // the page gives up what it asked before
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			q.lock.Lock()
			q.asked = append(q.asked, string(body))
			q.lock.Unlock()
			if q.silent.Load() {
				panic(http.ErrAbortHandler)
			}
		}
		proxy.ServeHTTP(w, r)
	})
}

func (q *questions) count() int {
	q.lock.Lock()
	defer q.lock.Unlock()
	return len(q.asked)
}

func (q *questions) some(text string) bool { return q.with(text) > 0 }

// until waits for a question that has all texts.
func (q *questions) until(t *testing.T, what string, texts ...string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); q.with(texts...) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s was not asked for: no question has all of %q", what, texts)
		}
	}
}

// with counts the questions that have all texts.
func (q *questions) with(texts ...string) (n int) {
	q.lock.Lock()
	defer q.lock.Unlock()
	for _, a := range q.asked {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(a, text) }) {
			n++
		}
	}
	return n
}
