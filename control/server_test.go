package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/telemetry/query"
	queries "github.com/weirswitch/weir/telemetry/view/api"
)

// fakeSwitch has the given number of stations, or no database if it is
// negative. Its report changes with each call.
type fakeSwitch struct {
	stations int
	reports  atomic.Uint64
	changes  atomic.Uint64 // that were made
	entered  chan struct{} // Report signals that it began, if not nil
	slow     chan struct{} // Report waits for it, if there is one
}

func (f *fakeSwitch) Version() *api.VersionResponse {
	return &api.VersionResponse{Version: "v1.2.3", Go: "go1.26"}
}

func (f *fakeSwitch) Report() *api.ReportResponse {
	if f.slow != nil {
		f.entered <- struct{}{}
		<-f.slow
	}
	n := f.reports.Add(1)
	return &api.ReportResponse{
		Name: "s1", Id: 7, Modes: []string{"p0: native, copy"}, Balanced: true,
		Received: n, Forwarded: n, Dropped: map[string]uint64{"no_port": 0},
		Ports:   []*api.Port{{Name: "p0", Received: n, Dropped: map[string]uint64{"tx_full": n}}},
		Stages:  []*api.Stage{{Name: "parse", Packets: n, NsPerPacket: 1.5}},
		Workers: []*api.Worker{{Id: 0, Core: -1, Queues: []string{"p0/0"}, Packets: n}},
		Frames:  &api.Frames{Total: 4096, Size: 2048},
		Copies:  &api.Fate{},
	}
}

func (f *fakeSwitch) Records() *api.Records { return &api.Records{State: "connected"} }

func (f *fakeSwitch) Metrics() []*api.Metric {
	return []*api.Metric{{Stage: "l2", Name: "fdb_entries", Value: float64(f.stations), Gauge: true}}
}

func (f *fakeSwitch) Pint() (*api.PintReport, bool) {
	if f.stations == 0 {
		return nil, false
	}
	return &api.PintReport{Sink: true, Measured: []*api.PintMeasured{{Port: "p1", Value: "hop_latency", Packets: 7}}}, true
}

func (f *fakeSwitch) Ask(_ context.Context, q *query.Question) (any, error) {
	if f.stations == 0 {
		return nil, query.ErrNoRecords
	}
	return &query.PathAnswer{Value: string(q.Kind), Flows: []query.FlowPath{}, More: q.Limit}, nil
}

func (f *fakeSwitch) Config() string { return "[switch]\nname = \"s1\"\n" }

func (f *fakeSwitch) Fdb() (iter.Seq[*api.FdbEntry], bool) {
	return func(yield func(*api.FdbEntry) bool) {
		for i := range f.stations {
			if !yield(station(i)) {
				return
			}
		}
	}, f.stations >= 0
}

func (f *fakeSwitch) Acl() (*api.AclResponse, bool) {
	return &api.AclResponse{Rules: []*api.AclRule{{Name: "default", Action: "permit"}}}, f.stations != 0
}

func (f *fakeSwitch) Routes() (*api.RoutesResponse, bool) {
	return &api.RoutesResponse{Routes: []*api.Route{{Prefix: "10.0.0.0/8"}}}, f.stations != 0
}

func (f *fakeSwitch) Bonds() (*api.BondsResponse, bool) {
	return nil, false
}

func (f *fakeSwitch) Lldp() (*api.LldpResponse, bool) {
	return &api.LldpResponse{Neighbours: []*api.LldpNeighbour{{SystemName: "far"}}}, f.stations != 0
}

func (f *fakeSwitch) Groups() (*api.GroupsResponse, bool) {
	return &api.GroupsResponse{Memberships: []*api.GroupMembership{{Group: "239.1.1.1"}}}, f.stations != 0
}

func (f *fakeSwitch) Neighbours() (*api.NeighboursResponse, bool) {
	return &api.NeighboursResponse{Neighbours: []*api.Neighbour{{Address: "10.0.0.1"}}}, f.stations != 0
}

// The changes of a fakeSwitch are only noted: a value of "bad" is refused.
func (f *fakeSwitch) Set(q *api.SetRequest) (*api.ChangeResponse, error) {
	if q.Stage == "bad" {
		return nil, errors.New("stages.bad: the graph has no such stage")
	}
	f.changes.Add(1)
	return &api.ChangeResponse{Changes: []*api.Change{{Key: "stages." + q.Stage + "." + q.List + "[0]", New: "{}"}}}, nil
}

func (f *fakeSwitch) Reload(*api.ReloadRequest) (*api.ChangeResponse, error) {
	f.changes.Add(1)
	return &api.ChangeResponse{}, nil
}

func (f *fakeSwitch) Clear(*api.ClearRequest) (*api.ClearResponse, error) {
	f.changes.Add(1)
	return &api.ClearResponse{Cleared: 3}, nil
}

func (f *fakeSwitch) Trace(_ context.Context, q *api.TraceRequest) (*api.TraceResponse, error) {
	if q.Filter == "bad" {
		return nil, errors.New("bad is no filter")
	}
	return &api.TraceResponse{Packets: []*api.TracedPacket{{Port: "p0"}}}, nil
}

func (f *fakeSwitch) Capture(ctx context.Context, q *api.CaptureRequest, send func(*api.CaptureResponse) error) error {
	if q.Filter == "bad" {
		return errors.New("bad is no filter")
	}
	for range q.Count {
		if err := send(&api.CaptureResponse{Packets: []*api.CapturedPacket{{Data: make([]byte, 1000)}}}); err != nil {
			return err
		}
	}
	return nil
}

func station(i int) *api.FdbEntry {
	return &api.FdbEntry{
		Mac:  fmt.Sprintf("02:00:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255),
		Vlan: uint32(i % 4095), Port: fmt.Sprintf("p%d", i%8), AgeNs: int64(i) * 1e9, Static: i%2 == 0,
	}
}

// serve starts a server and returns its socket.
func serve(t *testing.T, sw Switch) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s1.sock")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, sw, Options{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
	return path
}

func TestCalls(t *testing.T) {
	f := &fakeSwitch{stations: 3}
	c := NewClient(serve(t, f))
	ctx := t.Context()

	report, err := c.Report(ctx, &api.ReportRequest{})
	if err != nil {
		t.Fatal(err)
	}
	f.reports.Store(0)
	if want := f.Report(); !proto.Equal(report, want) {
		t.Errorf("report %v, want %v", report, want)
	}
	ports, err := c.Ports(ctx, &api.PortsRequest{})
	if err != nil || len(ports.Ports) != 1 || ports.Ports[0].Dropped["tx_full"] != 2 {
		t.Errorf("ports %v, %v", ports, err)
	}
	stages, err := c.Stages(ctx, &api.StagesRequest{})
	if err != nil || len(stages.Stages) != 1 || stages.Stages[0].NsPerPacket != 1.5 {
		t.Errorf("stages %v, %v", stages, err)
	}
	metrics, err := c.Metrics(ctx, &api.MetricsRequest{})
	if err != nil || len(metrics.Metrics) != 1 || metrics.Metrics[0].Name != "fdb_entries" || metrics.Records.State != "connected" {
		t.Errorf("metrics %v, %v", metrics, err)
	}
	pint, err := c.Pint(ctx, &api.PintRequest{})
	if err != nil || !pint.Sink || len(pint.Measured) != 1 || !proto.Equal(pint.Measured[0], &api.PintMeasured{Port: "p1", Value: "hop_latency", Packets: 7}) {
		t.Errorf("measured %v, %v", pint, err)
	}
	question := &queries.AskRequest{Question: &queries.Question{Kind: "path", Limit: 7}}
	if a, err := c.Ask(ctx, question); err != nil || a.GetPath().GetValue() != "path" || a.GetPath().More != 7 {
		t.Errorf("answer %v, %v", a, err)
	}
	if _, err := NewClient(serve(t, &fakeSwitch{})).Ask(ctx, question); !errors.Is(queries.Reason(err), query.ErrNoRecords) {
		t.Errorf("without records: %v", err)
	}
	if _, err := c.Collector(ctx, &queries.CollectorRequest{}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a switch as a collector: %v", err)
	}
	if _, err := NewClient(serve(t, &fakeSwitch{})).Pint(ctx, &api.PintRequest{}); err == nil || Reason(err).Error() != "this switch has no digests: its graph has no stage pint" {
		t.Errorf("without the stage: %v", err)
	}
	workers, err := c.Workers(ctx, &api.WorkersRequest{})
	if err != nil || len(workers.Workers) != 1 || workers.Workers[0].Core != -1 {
		t.Errorf("workers %v, %v", workers, err)
	}
	config, err := c.Config(ctx, &api.ConfigRequest{})
	if err != nil || config.Toml != f.Config() {
		t.Errorf("config %v, %v", config, err)
	}
	version, err := c.Version(ctx, &api.VersionRequest{})
	if err != nil || version.Version != "v1.2.3" {
		t.Errorf("version %v, %v", version, err)
	}
}

// TestFdb: databases of any size arrive whole and in the switch's order, also
// where they end with a full piece.
func TestFdb(t *testing.T) {
	for _, n := range []int{0, 1, fdbPiece - 1, fdbPiece, fdbPiece + 1, 10*fdbPiece + 17} {
		entries, err := NewClient(serve(t, &fakeSwitch{stations: n})).FdbEntries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != n {
			t.Errorf("%d entries, want %d", len(entries), n)
			continue
		}
		for i, e := range entries {
			if !proto.Equal(e, station(i)) {
				t.Fatalf("entry %d is %v, want %v", i, e, station(i))
			}
		}
	}
}

func TestFdbWithoutStage(t *testing.T) {
	_, err := NewClient(serve(t, &fakeSwitch{stations: -1})).FdbEntries(t.Context())
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("got %v", err)
	}
	if got, want := Reason(err).Error(), "this switch has no forwarding database: its graph has no stage l2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestConcurrentReaders: many clients at once, each sees whole reports.
func TestConcurrentReaders(t *testing.T) {
	socket := serve(t, &fakeSwitch{stations: 3000})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c := NewClient(socket)
			for range 5 {
				r, err := c.Report(context.Background(), &api.ReportRequest{})
				if err != nil {
					t.Error(err)
					return
				}
				if n := r.Received; r.Ports[0].Received != n || r.Stages[0].Packets != n || r.Workers[0].Packets != n {
					t.Errorf("a report of two moments: %v", r)
				}
				if e, err := c.FdbEntries(context.Background()); err != nil || len(e) != 3000 {
					t.Errorf("%d entries, %v", len(e), err)
				}
			}
		})
	}
	all.Wait()
}

// TestMalformedRequests: the answer to any malformed request is an error, and the
// next client is served.
func TestMalformedRequests(t *testing.T) {
	socket := serve(t, &fakeSwitch{})
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}
	defer transport.CloseIdleConnections()
	post := func(path, kind string, body io.Reader) int {
		r, err := (&http.Client{Transport: transport}).Post("http://weir"+path, kind, body)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	tests := []struct {
		name, path, kind, body string
		want                   int
	}{
		{"the same, well formed", api.SwitchReportProcedure, "application/json", "{}", 200},
		{"no protobuf", api.SwitchReportProcedure, "application/proto", "\xff\xff\xff", 400},
		{"no JSON", api.SwitchReportProcedure, "application/json", "{", 400},
		{"too long", api.SwitchReportProcedure, "application/json", "{" + strings.Repeat(" ", maxRequest) + "}", 429},
		{"unknown call", "/weir.v1.Switch/Destroy", "application/json", "{}", 404},
		{"unknown service", "/", "application/json", "{}", 404},
		{"unknown encoding", api.SwitchReportProcedure, "text/plain", "{}", 415},
	}
	for _, tt := range tests {
		if got := post(tt.path, tt.kind, strings.NewReader(tt.body)); got != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, got, tt.want)
		}
	}
	for _, raw := range []string{"\x00\x01\x02\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "POST " + strings.Repeat("/x", maxHeader), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"} {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, raw)
		_ = c.(*net.UnixConn).CloseWrite()
		answer, _ := io.ReadAll(c)
		if strings.HasPrefix(string(answer), "HTTP/1.1 200") {
			t.Errorf("%.10q is answered with %.60q", raw, answer)
		}
		_ = c.Close()
	}
	if _, err := NewClient(socket).Report(t.Context(), &api.ReportRequest{}); err != nil {
		t.Errorf("the server is harmed: %v", err)
	}
}

// TestCloseLetsAnswersEnd: a call in flight is answered, and none after it.
func TestCloseLetsAnswersEnd(t *testing.T) {
	f := &fakeSwitch{entered: make(chan struct{}), slow: make(chan struct{})}
	path := filepath.Join(t.TempDir(), "s1.sock")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, f, Options{})
	answered := make(chan error)
	go func() {
		_, err := NewClient(path).Report(context.Background(), &api.ReportRequest{})
		answered <- err
	}()
	<-f.entered
	time.AfterFunc(10*time.Millisecond, func() { close(f.slow) }) // while Close waits, or before
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("a call in flight failed: %v", err)
	}
	var dial *DialError
	_, err = NewClient(path).Report(t.Context(), &api.ReportRequest{})
	if !errors.As(err, &dial) {
		t.Errorf("a closed server answers %v", err)
	}
}

// TestCloseCutsOffTheStuck: a client that never reads its answer does not keep
// the switch from ending.
func TestCloseCutsOffTheStuck(t *testing.T) {
	f := &fakeSwitch{entered: make(chan struct{}), slow: make(chan struct{})}
	path := filepath.Join(t.TempDir(), "s1.sock")
	l, err := Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(l, f, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error)
	go func() {
		_, err := NewClient(path).Report(ctx, &api.ReportRequest{})
		failed <- err
	}()
	<-f.entered
	if err := s.Close(); err != nil {
		t.Errorf("close with a stuck client: %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the stuck call succeeded")
	}
	close(f.slow)
}

func TestDialErrors(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	missing := filepath.Join(dir, "missing.sock")
	tests := []struct{ socket, want string }{
		{missing, "no switch listens on " + missing + ": start it, or name another with --name or --socket"},
		{stale, "no switch listens on " + stale + " any more: start it again"},
	}
	for _, tt := range tests {
		_, err := NewClient(tt.socket).Report(t.Context(), &api.ReportRequest{})
		if err == nil || Reason(err).Error() != tt.want {
			t.Errorf("got %v, want %q", Reason(err), tt.want)
		}
		if _, err := NewClient(tt.socket).FdbEntries(t.Context()); err == nil || Reason(err).Error() != tt.want {
			t.Errorf("stream: got %v, want %q", Reason(err), tt.want)
		}
	}
}

// TestBroken: of a connection that ends before the answer is complete, the reason says that in plain words.
func TestBroken(t *testing.T) {
	const begun = "HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, answer := range map[string]func(net.Conn){
		"at once":           func(net.Conn) {}, // with a request unread, which resets the connection
		"after the request": func(c net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(c)) },
		"within the answer": func(c net.Conn) { _, _ = http.ReadRequest(bufio.NewReader(c)); _, _ = io.WriteString(c, begun) },
		"within its first part": func(c net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, begun+"3\r\n\x00\x00\x00\r\n")
		},
	} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				answer(c)
				_ = c.Close()
			}
		}()
		if _, err := NewClient(path).FdbEntries(t.Context()); Reason(err) != ErrBroken {
			t.Errorf("%s, of a stream: %v", name, Reason(err))
		}
		if _, err := NewClient(path).Report(t.Context(), &api.ReportRequest{}); !strings.HasPrefix(name, "within") && Reason(err) != ErrBroken {
			t.Errorf("%s: %v", name, Reason(err))
		}
		_ = l.Close()
		<-served
	}
	if idle := connect.NewError(connect.CodeUnavailable, errors.New("http: server closed idle connection")); Reason(idle) != ErrBroken {
		t.Errorf("before the request was written: %v", Reason(idle))
	}
	// What the switch itself sends, and the caller's own end, are no broken connections.
	for _, err := range []error{connect.NewError(connect.CodeUnavailable, errors.New("EOF")), context.Canceled, io.EOF} {
		if errors.Is(Reason(err), ErrBroken) {
			t.Errorf("%v is taken for a broken connection", err)
		}
	}
}

// TestJSON: every field is there under the schema's name, numbers as numbers.
func TestJSON(t *testing.T) {
	r := (&fakeSwitch{}).Report()
	r.Name = "quo\"te"
	var got map[string]any
	if err := json.Unmarshal(JSON(r), &got); err != nil {
		t.Fatalf("%v: %s", err, JSON(r))
	}
	if got["name"] != "quo\"te" || got["received"] != 1.0 || got["consumed"] != 0.0 || got["balanced"] != true {
		t.Errorf("got %v", got)
	}
	port := got["ports"].([]any)[0].(map[string]any)
	if n := len(port); n != (&api.Port{}).ProtoReflect().Descriptor().Fields().Len() {
		t.Errorf("a port has %d fields: %v", n, port)
	}
	if port["received_bytes"] != 0.0 || port["dropped"].(map[string]any)["tx_full"] != 1.0 {
		t.Errorf("got %v", port)
	}
	if fmt.Sprint(port["copies"]) != "map[consumed:0 dropped:map[] forwarded:0 received:0]" {
		t.Errorf("an empty message is %v", port["copies"])
	}
	if want := `{"entries":[]}`; string(JSON(&api.FdbResponse{})) != want {
		t.Errorf("got %s, want %s", JSON(&api.FdbResponse{}), want)
	}
}
