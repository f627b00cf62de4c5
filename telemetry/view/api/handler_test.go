package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// testEngine is an engine over the samples of two switches, s1 and s2, that the packets of 200
// flows passed.
func testEngine(t testing.TB) *query.Engine {
	t.Helper()
	s := &store.Store{}
	for sw := uint32(1); sw <= 2; sw++ {
		for _, unit := range []oblivious.Unit{oblivious.Packets, oblivious.Flows} {
			p, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: unit, Size: 400})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 600 {
				k := oblivious.Key{Version: 4, Proto: 17, SrcPort: uint16(1000 + i%200), DstPort: 9}
				copy(k.Src[:], []byte{10, 0, 0, byte(i % 200)})
				copy(k.Dst[:], []byte{10, 1, 0, 1})
				id := uint64(i)
				if unit == oblivious.Flows {
					id = uint64(i % 200)
				}
				p.Add((id+1)*0x9e3779b97f4a7c15, 100, &k)
			}
			h := record.Header{Kind: record.Oblivious, Switch: sw, Name: fmt.Sprintf("s%d", sw), Start: 1 << 40, Span: 1 << 30, Instance: uint16(unit)}
			b, err := record.Append(nil, &h, p.Sample().AppendBinary)
			if err != nil {
				t.Fatal(err)
			}
			s.AddBytes(b)
		}
	}
	s.Sort()
	if c := s.Counts(); c.Records != 4 {
		t.Fatalf("%+v", c)
	}
	return &query.Engine{Store: s}
}

// serve starts a server with a configuration, whose Ask is the engine's if it has none.
func serve(t testing.TB, c Config) *httptest.Server {
	t.Helper()
	return serveOn(t, c, func(net.Conn) {})
}

// serveOn starts one that does something to its connections.
func serveOn(t testing.TB, c Config, each func(net.Conn)) *httptest.Server {
	t.Helper()
	if c.Ask == nil {
		c.Ask = testEngine(t).Ask
	}
	if c.Collector == nil {
		c.Collector = func(context.Context) (*CollectorStatus, error) { return &CollectorStatus{Name: "test"}, nil }
	}
	mux := http.NewServeMux()
	mux.Handle(NewHandler(c))
	mux.Handle(SchemaPath, Schema())
	server := httptest.NewUnstartedServer(mux)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { each(c); return ctx }
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func client(t testing.TB, server *httptest.Server) *Client {
	t.Helper()
	c, err := NewClient(server.URL, ClientTLS{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// post sends a body and returns the status and the answer's text.
func post(t testing.TB, server *httptest.Server, method, contentType string, body io.Reader, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, server.URL+"/weir.query.v1.QueryService/"+method, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// TestAskEqualsEngine: what arrives at a program is what the engine says, and the JSON of the
// wire is the JSON of package query.
func TestAskEqualsEngine(t *testing.T) {
	e := testEngine(t)
	server := serve(t, Config{Ask: e.Ask})
	c := client(t, server)
	for _, q := range []query.Question{
		{Kind: query.KindVolume},
		{Kind: query.KindVolume, Src: "10.0.0.0/28", Confidence: 0.5},
		{Kind: query.KindHeavyHitters, Theta: 0.004, Unit: "bytes", Limit: 7},
		{Kind: query.KindCardinality, Last: time.Second},
		{Kind: query.KindFrequency, Flow: "10.0.0.7:1007 > 10.1.0.1:9 udp"},
		{Kind: query.KindVolume, Step: time.Second},
	} {
		want, err := e.Ask(t.Context(), &q)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		got, err := c.Ask(t.Context(), &q)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(query.HeavyFlow{}, "Key")); diff != "" {
			t.Errorf("%+v, -want +got:\n%s", q, diff)
		}
		body, err := json.Marshal(map[string]any{"question": q})
		if err != nil {
			t.Fatal(err)
		}
		status, text := post(t, server, "Ask", "application/json", bytes.NewReader(body))
		var wire map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &wire); status != http.StatusOK || err != nil || len(wire) != 1 {
			t.Fatalf("%+v: status %d, %v\n%s", q, status, err, text)
		}
		for _, value := range wire {
			plain, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if errors.Join(json.Unmarshal(plain, &a), json.Unmarshal(value, &b)) != nil || !cmp.Equal(a, b, cmpopts.IgnoreMapEntries(nothing)) {
				t.Errorf("%+v: over the wire\n%s\nin package query\n%s", q, value, plain)
			}
		}
	}
}

// nothing are entries that one form leaves out: null, and empty lists.
func nothing(_ string, v any) bool {
	list, ok := v.([]any)
	return v == nil || ok && len(list) == 0
}

// TestRefused: every fault has its code, and says what to do.
func TestRefused(t *testing.T) {
	e := testEngine(t)
	server := serve(t, Config{Ask: func(ctx context.Context, q *query.Question) (any, error) {
		switch q.Src {
		case "10.0.0.1":
			return nil, fmt.Errorf("more than 5 candidates: %w", query.ErrTooCostly)
		case "10.0.0.2":
			panic("on purpose")
		case "10.0.0.3":
			return &query.Basis{}, nil
		case "10.0.0.4":
			return nil, errors.New("the samples' seeds differ")
		case "10.0.0.5":
			<-ctx.Done()
			return nil, fmt.Errorf("given up: %w", ctx.Err())
		}
		return e.Ask(ctx, q)
	}, Limits: Limits{Time: 3 * time.Second, Body: 4096}})
	c := client(t, server)
	for name, test := range map[string]struct {
		q    query.Question
		code connect.Code
		says []string
		is   error
	}{
		"no kind":      {query.Question{Kind: "volumes"}, connect.CodeInvalidArgument, []string{`kind "volumes": use one of path,`}, query.ErrInvalid},
		"three faults": {query.Question{Kind: "volume", Src: "ten", Port: "x", Confidence: 2}, connect.CodeInvalidArgument, []string{"src:", "\nport:", "\nconfidence 2: choose"}, query.ErrInvalid},
		"no records":   {query.Question{Kind: "entropy"}, connect.CodeNotFound, []string{"no records"}, query.ErrNoRecords},
		"no window":    {query.Question{Kind: "volume", Start: 1, End: 2}, connect.CodeNotFound, []string{"ask about another window"}, query.ErrNoRecords},
		"no switch":    {query.Question{Kind: "delay", From: "s8", To: "s9"}, connect.CodeInvalidArgument, []string{`"s8" sent no records`, "\n", `"s9"`}, query.ErrInvalid},
		"costly":       {query.Question{Kind: "volume", Src: "10.0.0.1"}, connect.CodeResourceExhausted, []string{"more than 5"}, query.ErrTooCostly},
		"a panic":      {query.Question{Kind: "volume", Src: "10.0.0.2"}, connect.CodeInternal, []string{"its log says where"}, nil},
		"no message":   {query.Question{Kind: "volume", Src: "10.0.0.3"}, connect.CodeInternal, []string{"query.Basis"}, nil},
		"other":        {query.Question{Kind: "volume", Src: "10.0.0.4"}, connect.CodeFailedPrecondition, []string{"seeds differ"}, nil},
		"late":         {query.Question{Kind: "volume", Src: "10.0.0.5"}, connect.CodeDeadlineExceeded, []string{"at most 3s", "query_time"}, context.DeadlineExceeded},
		"large":        {query.Question{Kind: "heavy-hitters", At: "s1", Flows: make([]string, 4000)}, connect.CodeResourceExhausted, []string{"more than 4096 bytes"}, query.ErrTooCostly},
	} {
		_, err := c.Ask(t.Context(), &test.q)
		if connect.CodeOf(err) != test.code || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: code %v, want %v: %v", name, connect.CodeOf(err), test.code, err)
			continue
		}
		for _, s := range test.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %q does not say %q", name, err, s)
			}
		}
	}
	for name, test := range map[string]struct {
		method, contentType, body string
		status                    int
		says                      string
	}{
		"an unknown field":   {"Ask", "application/json", `{"question":{"kind":"volume","frog":1}}`, 400, `unknown field \"frog\"`},
		"another case":       {"Ask", "application/json", `{"question":{"kind":"volume","LAST_NS":1}}`, 400, `unknown field`},
		"no question":        {"Ask", "application/json", `{}`, 400, "send one, as"},
		"an empty body":      {"Ask", "application/json", ``, 400, "send an object"},
		"no JSON":            {"Ask", "application/json; charset=utf-8", `kind=volume`, 400, "invalid"},
		"a list":             {"Ask", "application/json", `[]`, 400, "unexpected"},
		"a large sketch":     {"Ask", "application/json", `{"question":{"kind":"target","sketch":65536}}`, 400, "sketch: 65536 is too large"},
		"no number":          {"Ask", "application/json", `{"question":{"kind":"heavy-hitters","theta":"NaN"}}`, 400, "theta: NaN is no number"},
		"no step":            {"Series", "application/json", `{"question":{"kind":"volume"}}`, 400, "step_ns: a series needs it"},
		"another type":       {"Ask", "text/plain", `{"question":{"kind":"volume"}}`, 415, ""},
		"another method":     {"Purge", "application/json", `{}`, 404, ""},
		"rubbish in binary":  {"Ask", "application/proto", "\x0a\xff\xff\xff\xff\x0f", 400, "invalid_argument"},
		"rubbish in a frame": {"Watch", "application/connect+proto", "\x00\x00\x00\x00\x05hello", 200, "invalid_argument"},
		"a long frame":       {"Watch", "application/connect+json", "\x00\xff\xff\xff\xff{}", 200, "resource_exhausted"},
		"half a frame":       {"Watch", "application/connect+json", "\x00\x00\x00\x00\x20{", 200, "promised 32 bytes"},
		"no frame":           {"Watch", "application/connect+json", "", 200, "unimplemented"},
		"unknown flags":      {"Watch", "application/connect+json", "\x80\x00\x00\x00\x02{}", 200, "error"},
		"a short interval":   {"Watch", "application/connect+json", frame(`{"question":{"kind":"volumes"},"interval_ns":5}`), 200, `choose 0 for a second, or 100000000 to 3600000000000\nkind`},
	} {
		status, text := post(t, server, test.method, test.contentType, strings.NewReader(test.body))
		if status != test.status || !strings.Contains(text, test.says) {
			t.Errorf("%s: status %d, want %d; %q, want %q", name, status, test.status, text, test.says)
		}
	}
	status, text := post(t, server, "Ask", "application/json", bytes.NewReader(bomb(t)), "Content-Encoding", "gzip")
	if status != http.StatusTooManyRequests || !strings.Contains(text, "resource_exhausted") {
		t.Errorf("ten megabytes in %d bytes: status %d, %s", len(bomb(t)), status, text)
	}
	if status, text := post(t, server, "Ask", "application/json", strings.NewReader(`{"question":{"kind":"volume"}}`), "Origin", "http://elsewhere.example", "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
		t.Errorf("from another site's page: status %d, %s", status, text)
	}
}

// frame is a message of a stream.
func frame(text string) string { return "\x00\x00\x00\x00" + string(rune(len(text))) + text }

// bomb is much in little.
func bomb(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(append([]byte(`{"question":{"kind":"`), bytes.Repeat([]byte("x"), 10<<20)...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 1<<14 {
		t.Fatalf("%d bytes", b.Len())
	}
	// It must pass as a request that is small enough.
	return b.Bytes()[:min(b.Len(), 4096)]
}

// TestAllow: who may not ask is told why, before anything is read.
func TestAllow(t *testing.T) {
	asked := false
	server := serve(t, Config{
		Allow: func(r *http.Request) error {
			if r.Header.Get("X-Key") == "right" {
				return nil
			}
			return errors.New("come with another certificate")
		},
		Ask: func(context.Context, *query.Question) (any, error) { asked = true; return &query.Cardinality{}, nil },
	})
	for key, want := range map[string]int{"wrong": http.StatusForbidden, "right": http.StatusOK} {
		status, text := post(t, server, "Ask", "application/json", strings.NewReader(`{"question":{"kind":"cardinality"}}`), "X-Key", key)
		if status != want || asked != (key == "right") && key == "wrong" || key == "wrong" && !strings.Contains(text, "another certificate") {
			t.Errorf("%s: status %d, %s", key, status, text)
		}
		asked = false
	}
}

// TestWatch: answers come again and again; a time without one does not end it, and the
// collector's end does.
func TestWatch(t *testing.T) {
	e := testEngine(t)
	closing := make(chan struct{})
	calls := 0
	server := serve(t, Config{Closing: closing, Ask: func(ctx context.Context, q *query.Question) (any, error) {
		if calls++; calls == 2 {
			return nil, fmt.Errorf("%w in the window", query.ErrNoRecords)
		}
		return e.Ask(ctx, q)
	}})
	var answers []any
	var faults []error
	err := client(t, server).Watch(t.Context(), &query.Question{Kind: query.KindVolume}, 100*time.Millisecond, func(a any, err error) error {
		answers, faults = append(answers, a), append(faults, err)
		if len(answers) == 3 {
			close(closing)
		}
		return nil
	})
	if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "the collector ends") {
		t.Errorf("ended by %v", err)
	}
	if len(answers) < 3 || faults[0] != nil || !errors.Is(faults[1], query.ErrNoRecords) || faults[2] != nil {
		t.Fatalf("%v, %v", answers, faults)
	}
	if v, ok := answers[2].(*query.Volume); !ok || v.NaivePackets != 1200 {
		t.Errorf("%+v", answers[2])
	}
	stop := errors.New("enough")
	err = client(t, serve(t, Config{})).Watch(t.Context(), &query.Question{Kind: query.KindVolume}, 0, func(any, error) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	err = client(t, serve(t, Config{})).Watch(t.Context(), &query.Question{Kind: "volumes"}, 0, func(any, error) error { return stop })
	if !errors.Is(err, query.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// TestCollector: the handler adds what it counted itself.
func TestCollector(t *testing.T) {
	server := serve(t, Config{})
	c := client(t, server)
	if _, err := c.Ask(t.Context(), &query.Question{Kind: query.KindVolume}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ask(t.Context(), &query.Question{Kind: query.KindEntropy}); err == nil {
		t.Fatal("an entropy of nothing")
	}
	s, err := c.Collector(t.Context(), &CollectorRequest{})
	if err != nil || s.Name != "test" || s.Api.Answered != 1 || s.Api.Failed != 1 || s.Api.Watches != 0 {
		t.Errorf("%v, %v", s, err)
	}
}

// TestSchemaServed: the schema can be fetched, and is what the code was made from.
func TestSchemaServed(t *testing.T) {
	server := serve(t, Config{})
	r, err := http.Get(server.URL + SchemaPath)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	want, err2 := os.ReadFile("query.proto")
	if errors.Join(err, err2) != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, %v", len(got), len(want), errors.Join(err, err2))
	}
	if status, _ := post(t, server, "../.."+SchemaPath, "text/plain", nil); status != http.StatusMethodNotAllowed {
		t.Errorf("a schema posted: status %d", status)
	}
}

// TestClientURLs: a URL that means nothing is refused with what to write.
func TestClientURLs(t *testing.T) {
	for url, says := range map[string]string{
		"127.0.0.1:9470": "write it as", "http://": "write it as", "ftp://x": "write it as", "http://x/page": "write it as", "unix://x": "write it as",
		"http://user:pass@x": "write it as", "": "write it as", "https://x": "name the client's certificate",
	} {
		if _, err := NewClient(url, ClientTLS{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := NewClient("http://x", ClientTLS{CA: "ca.pem"}); err == nil || !strings.Contains(err.Error(), "https") {
		t.Errorf("certificates without TLS: %v", err)
	}
	none := filepath.Join(t.TempDir(), "none.sock")
	for _, url := range []string{"unix://" + none, "http://127.0.0.1:1"} {
		c, err := NewClient(url, ClientTLS{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Ask(t.Context(), &query.Question{Kind: query.KindVolume})
		if nobody := (*DialError)(nil); !errors.As(err, &nobody) || !strings.Contains(err.Error(), "no collector listens on "+url) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
