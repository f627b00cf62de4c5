package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirswitch/weir/telemetry/query"
)

const volumeQuestion = `{"question":{"kind":"volume"}}`

// until waits for a state that must come.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// dialAndSend opens a connection and sends the text.
func dialAndSend(t testing.TB, server *httptest.Server, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

func head(method, contentType string, length int) string {
	return fmt.Sprintf("POST /weir.query.v1.QueryService/%s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", method, contentType, length)
}

// TestCrowd: of a thousand clients that ask at once, as many are answered at a time as may
// be, as many wait as may, all others are told so, and nobody stays without an answer.
func TestCrowd(t *testing.T) {
	const clients, requests, questions = 1000, 50, 3
	e := testEngine(t)
	var now, most atomic.Int64
	release := make(chan struct{})
	server := serve(t, Config{Limits: Limits{Requests: requests, Questions: questions}, Ask: func(ctx context.Context, q *query.Question) (any, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-release
		return e.Ask(ctx, q)
	}})
	server.Client().Transport.(*http.Transport).MaxConnsPerHost = 200 // descriptors
	var answered, refused, other atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			switch status, text := post(t, server, "Ask", "application/json", strings.NewReader(volumeQuestion)); {
			case status == http.StatusOK:
				answered.Add(1)
			case status == http.StatusTooManyRequests && strings.Contains(text, "ask again later"):
				refused.Add(1)
			default:
				other.Add(1)
				t.Errorf("status %d: %s", status, text)
			}
		})
	}
	until(t, "not so many are refused as must be", func() bool { return refused.Load() == clients-requests })
	close(release)
	all.Wait()
	if answered.Load() != requests || most.Load() != questions {
		t.Errorf("%d answered, want %d; %d at a time, want %d", answered.Load(), requests, most.Load(), questions)
	}
}

// TestSlowSenders: who sends a request slower than it may, or not at all, is cut off, and
// memory is kept for as many of them as have a place.
func TestSlowSenders(t *testing.T) {
	const clients, requests = 100, 4
	server := serve(t, Config{Limits: Limits{Requests: requests, Sending: time.Second}})
	var all []net.Conn
	for range clients {
		all = append(all, dialAndSend(t, server, head("Ask", "application/json", 1<<20)+`{"question":`))
	}
	late, refused := 0, 0
	for _, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		text, _ := io.ReadAll(c)
		switch {
		case bytes.Contains(text, []byte("did not arrive whole")):
			late++
		case bytes.Contains(text, []byte("ask again later")):
			refused++
		default:
			t.Errorf("%q", text)
		}
	}
	if late == 0 || late+refused != clients {
		t.Errorf("%d were late, %d refused", late, refused)
	}
	until(t, "afterwards there is no room", func() bool {
		status, _ := post(t, server, "Ask", "application/json", strings.NewReader(volumeQuestion))
		return status == http.StatusOK
	})
}

// TestWatchersThatDoNotRead: a watch whose client stops to read ends, and its place is free; one
// more than there are places is refused.
func TestWatchersThatDoNotRead(t *testing.T) {
	const watches = 5
	large := &query.HeavyHitters{Flows: make([]query.HeavyFlow, 1000)}
	server := serveOn(t, Config{Limits: Limits{Watches: watches, Reading: 3 * time.Second}, Ask: func(context.Context, *query.Question) (any, error) { return large, nil }},
		func(c net.Conn) { _ = c.(*net.TCPConn).SetWriteBuffer(4096) }) // far less than an answer
	body := frame(`{"question":{"kind":"heavy-hitters"},"interval_ns":100000000}`)
	open := func() int64 {
		s, err := client(t, server).Collector(t.Context(), &CollectorRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Api.Watches
	}
	before := runtime.NumGoroutine()
	for range watches {
		c := dialAndSend(t, server, "")
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := io.WriteString(c, head("Watch", "application/connect+json", len(body))+body); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the watches do not open", func() bool { return open() == watches })
	if _, text := post(t, server, "Watch", "application/connect+json", strings.NewReader(body)); !strings.Contains(text, "ask again later") {
		t.Errorf("one more: %.200q", text)
	}
	until(t, "a watch stays open that nobody reads", func() bool { return open() == 0 })
	until(t, "goroutines stay", func() bool { server.Client().CloseIdleConnections(); return runtime.NumGoroutine() <= before+2 })
}

// TestClientsThatLeave: a question ends with the connection of whoever asked it.
func TestClientsThatLeave(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	server := serve(t, Config{Ask: func(ctx context.Context, _ *query.Question) (any, error) {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}, Limits: Limits{Time: time.Minute}})
	c := dialAndSend(t, server, head("Ask", "application/json", len(volumeQuestion))+volumeQuestion)
	<-began
	_ = c.Close()
	select {
	case err := <-ended:
		if err != context.Canceled {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the question goes on without anybody to answer")
	}
}

// FuzzRequest sends anything to the handler: each request gets an answer of the protocol, and
// none an error of ours.
func FuzzRequest(f *testing.F) {
	types := []string{"application/json", "application/proto", "application/connect+json", "application/connect+proto", "application/grpc-web+proto", "text/plain"}
	methods := []string{"Ask", "Watch", "Series", "Collector", "None"}
	q, err := NewQuestion(&query.Question{Kind: query.KindHeavyHitters, Theta: 0.01, Limit: 3})
	if err != nil {
		f.Fatal(err)
	}
	binary, err := proto.Marshal(&AskRequest{Question: q})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(0), uint8(0), []byte(volumeQuestion), "")
	f.Add(uint8(0), uint8(1), binary, "")
	f.Add(uint8(1), uint8(2), []byte(frame(volumeQuestion)), "")
	f.Add(uint8(1), uint8(3), []byte(frame(string(binary))), "")
	f.Add(uint8(2), uint8(0), []byte(`{"question":{"kind":"volume","step_ns":500000000,"start_ns":1099511627776,"end_ns":1100585369600}}`), "")
	f.Add(uint8(0), uint8(0), []byte(`{"question":{"kind":"delay","from":"s1:0","to":"s2","flow":"10.0.0.1:1 > 10.0.0.2:2 udp","weight":70000}}`), "")
	f.Add(uint8(0), uint8(4), []byte(frame(string(binary))), "")
	f.Add(uint8(0), uint8(0), []byte("\x1f\x8b\x08"), "gzip")
	closing := make(chan struct{})
	close(closing) // a watch has one answer
	mux := http.NewServeMux()
	mux.Handle(NewHandler(Config{Ask: testEngine(f).Ask, Closing: closing, Limits: Limits{Body: 1 << 16},
		Collector: func(context.Context) (*CollectorStatus, error) { return &CollectorStatus{}, nil }}))
	f.Fuzz(func(t *testing.T, method, contentType uint8, body []byte, encoding string) {
		r := httptest.NewRequest(http.MethodPost, "/weir.query.v1.QueryService/"+methods[int(method)%len(methods)], bytes.NewReader(body))
		typ := types[int(contentType)%len(types)]
		r.Header.Set("Content-Type", typ)
		if encoding != "" {
			r.Header.Set("Content-Encoding", encoding)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		text := w.Body.Bytes()
		if bytes.Contains(text, []byte("this is a fault of")) || bytes.Contains(text, []byte("its log says where")) {
			t.Fatalf("status %d: %s", w.Code, text)
		}
		if w.Code == http.StatusOK && typ == "application/json" || w.Header().Get("Content-Type") == "application/json" {
			if !json.Valid(text) {
				t.Fatalf("status %d, and no JSON: %s", w.Code, text)
			}
		}
		if w.Code == http.StatusInternalServerError {
			t.Fatalf("%s", text)
		}
	})
}
