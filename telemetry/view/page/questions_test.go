package page

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
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

func (q *questions) some(text string) bool {
	q.lock.Lock()
	defer q.lock.Unlock()
	for _, a := range q.asked {
		if strings.Contains(a, text) {
			return true
		}
	}
	return false
}
