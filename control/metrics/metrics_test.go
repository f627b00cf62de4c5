package metrics

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/zap"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirswitch/weir/control/api"
)

// everyField fills all counters of a message with different numbers.
func everyField(m protoreflect.Message, next *uint64) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
			*next++
			m.Mutable(f).Map().Set(protoreflect.ValueOfString(fmt.Sprint(f.Name(), "_x")).MapKey(), protoreflect.ValueOfUint64(*next))
		case f.IsList():
		case f.Kind() == protoreflect.MessageKind:
			everyField(m.Mutable(f).Message(), next)
		case f.Kind() == protoreflect.Uint64Kind:
			*next++
			m.Set(f, protoreflect.ValueOfUint64(*next))
		}
	}
}

type fixedReport struct{ r *api.ReportResponse }

func (f fixedReport) Report() *api.ReportResponse { return f.r }

// TestCollector: every counter of ports, stages and workers is shown, under a name
// as Prometheus wants it. A counter that is added to the API and forgotten here
// fails the test.
func TestCollector(t *testing.T) {
	next := uint64(1000)
	port, stage, worker := &api.Port{Name: "p0", Up: true}, &api.Stage{Name: "l2"}, &api.Worker{Id: 3}
	everyField(port.ProtoReflect(), &next)
	everyField(stage.ProtoReflect(), &next)
	everyField(worker.ProtoReflect(), &next)
	consumed := port.Copies.Consumed // copies never are
	r := &api.ReportResponse{
		Name: "s1", Id: 7, Ports: []*api.Port{port}, Stages: []*api.Stage{stage}, Workers: []*api.Worker{worker},
		Metrics: []*api.Metric{
			{Stage: "l2", Name: "fdb_entries", Help: "addresses", Value: 12, Gauge: true},
			{Stage: "acl", Name: "matched_packets_total", Help: "packets", Value: 13, Labels: map[string]string{"rule": "a\xff", "action": "deny"}},
		},
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(fixedReport{r}))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, f := range families {
		for _, m := range f.Metric {
			shown[fmt.Sprint(m.GetCounter().GetValue()+m.GetGauge().GetValue())] = true
		}
	}
	for n := uint64(1001); n <= next; n++ {
		if n == stage.SampledNs || n == worker.CpuNs {
			if !shown[fmt.Sprint(float64(n)/1e9)] {
				t.Errorf("the time that is %d ns is not shown", n)
			}
			continue
		}
		if n == consumed || shown[fmt.Sprint(float64(n))] {
			continue
		}
		t.Errorf("the counter that is %d is not shown: %v %v %v", n, port, stage, worker)
	}
	for _, want := range []string{
		`weir_acl_matched_packets_total{action="deny",rule="a?"} 13`, `weir_l2_fdb_entries 12`, `weir_port_up{port="p0"} 1`, `weir_switch_info{id="7",switch="s1"} 1`,
	} {
		if text := textOf(t, registry); !strings.Contains(text, want+"\n") {
			t.Errorf("want %s in\n%s", want, text)
		}
	}
}

func textOf(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// slowSwitch has one port. It hangs while there is a channel to wait for.
type slowSwitch struct{ entered, slow chan struct{} }

func (f *slowSwitch) Report() *api.ReportResponse {
	if f.slow != nil {
		f.entered <- struct{}{}
		<-f.slow
	}
	return &api.ReportResponse{Name: "s1", Ports: []*api.Port{{Name: "p0", Received: 1}}}
}

// TestMetricsServer: scrapes and health over HTTP; a switch that hangs is not
// healthy, and those who ask meanwhile do not pile up.
func TestMetricsServer(t *testing.T) {
	f := &slowSwitch{}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	s := Serve(l, f, zap.NewNop())
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	get := func(path string) (int, string) {
		r, err := http.Get(url + path)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer r.Body.Close()
		var b bytes.Buffer
		_, _ = io.Copy(&b, r.Body)
		return r.StatusCode, b.String()
	}
	if status, text := get("/metrics"); status != 200 || !strings.Contains(text, "weir_port_received_packets_total{port=\"p0\"} 1\n") || !strings.Contains(text, "go_goroutines") {
		t.Errorf("status %d: %s", status, text)
	}
	if status, text := get("/healthz"); status != 200 || text != "ok\n" {
		t.Errorf("status %d: %s", status, text)
	}
	if status, _ := get("/debug/pprof/"); status != 404 {
		t.Errorf("profiles: status %d", status)
	}
	if r, err := http.Post(url+"/metrics", "text/plain", nil); err != nil || r.StatusCode != 405 {
		t.Errorf("POST: %v, %v", r, err)
	}
	f.slow, f.entered = make(chan struct{}), make(chan struct{}, 100)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if status, _ := get("/healthz"); status != 503 {
				t.Errorf("a switch that hangs: status %d", status)
			}
		})
	}
	all.Wait()
	if n := len(f.entered); n != 1 {
		t.Errorf("%d questions to a switch that hangs, want 1", n)
	}
	close(f.slow)
	if l, err := Listen(""); l != nil || err != nil {
		t.Errorf("without an address: %v, %v", l, err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := Listen(taken.Addr().String()); err == nil || !strings.HasPrefix(err.Error(), "control.metrics: ") {
		t.Errorf("got %v", err)
	}
}
