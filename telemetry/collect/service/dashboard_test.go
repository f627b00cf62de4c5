package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/telemetry/collect/service"
	"github.com/weirswitch/weir/telemetry/query"
)

// TestTelemetryDashboard: the dashboard of telemetry asks for no metric that switches and collectors do not
// show: those of a switch are listed in docs/reference.md, which another test keeps true, and those of a
// collector are scraped from one that works and was asked.
func TestTelemetryDashboard(t *testing.T) {
	shown := map[string]bool{}
	reference, err := os.ReadFile("../../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir_[a-z0-9_]+)` \\|").FindAllStringSubmatch(string(reference), -1) {
		if !strings.HasPrefix(row[1], "weir_collect_") {
			shown[row[1]] = true
		}
	}
	switches := len(shown)
	for _, name := range scrapeCollector(t) {
		shown[name] = true
	}
	if switches < 50 || len(shown) < switches+20 {
		t.Fatalf("%d metrics of switches, %d in all", switches, len(shown))
	}
	text, err := os.ReadFile("../../../dist/grafana/telemetry.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Templating struct{ List []struct{ Query string } }
		Panels     []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	names := regexp.MustCompile(`\bweir_[a-z0-9_]+`)
	for _, p := range dashboard.Panels {
		if seen[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q, is there twice or asks for nothing", p.ID, p.Title)
		}
		seen[p.ID] = true
		for _, target := range p.Targets {
			asked := names.FindAllString(target.Expr, -1)
			if len(asked) == 0 {
				t.Errorf("panel %q asks for nothing: %s", p.Title, target.Expr)
			}
			for _, name := range asked {
				if !shown[name] {
					t.Errorf("panel %q asks for %s, which nobody shows", p.Title, name)
				}
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		for _, name := range names.FindAllString(v.Query, -1) {
			if !shown[name] {
				t.Errorf("a variable asks for %s, which nobody shows", name)
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("%d panels", len(seen))
	}
}

// scrapeCollector names the series of a collector with its own servers, behind a question.
func scrapeCollector(t *testing.T) (names []string) {
	t.Helper()
	c := config.DefaultCollect()
	c.Collect.Name, c.Collect.Data, c.Collect.Listen, c.NATS.Listen = "dashboard", t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	ready := make(chan struct{})
	s, err := service.New(c, service.Options{Ready: func() error { close(ready); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("the collector is not ready")
	}
	if _, err := s.Ask(ctx, &query.Question{Kind: query.KindVolume}); !errors.Is(err, query.ErrNoRecords) {
		t.Errorf("a volume without records: %v", err)
	}
	answer, err := http.Get(s.URL() + "metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		names = append(names, name)
		if f.GetType().String() == "HISTOGRAM" {
			names = append(names, name+"_bucket", name+"_sum", name+"_count")
		}
	}
	return names
}
