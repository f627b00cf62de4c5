package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"kernel.org/pub/linux/libs/security/libcap/cap"

	"github.com/weirswitch/weir/internal/privilege"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/l2"
)

// scrape reads /metrics of a switch in a namespace.
func (b *testbed) scrape(t *testing.T, path string) (status int, text string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: b.ns.Dial, DisableKeepAlives: true}, Timeout: time.Minute}
	r, err := client.Get("http://127.0.0.1:9464" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

// TestScrape: the metrics of a live switch are those of its report, and the
// dashboard asks for none that does not exist.
func TestScrape(t *testing.T) {
	r := newRouter(t)
	if err := r.ns.SetUp("lo"); err != nil {
		t.Fatal(err)
	}
	r.start(t, r.write(t, 1, `metrics = "127.0.0.1:9464"
[[stages.acl.rule]]
name = "half"
action = "deny"
dst = "198.19.128.0/17"
[[stages.policer.port]]
port = "p0"
rate_bits = 1000000000
[[stages.mirror.session]]
name = "span"
ports = ["p0"]
to = "p2"
`))
	l := r.load(t, 2000, 1000)
	l.Wait()
	var report struct {
		Received, Forwarded uint64
		Dropped             map[string]uint64
		Ports               []struct {
			Name                             string
			Received, Forwarded, Transmitted uint64
			Dropped                          map[string]uint64
		}
		Stages []struct {
			Name             string
			Packets, Dropped uint64
		}
	}
	// Nothing is sent any more: two reports that are equal have all in them.
	for deadline := time.Now().Add(time.Minute); report.Received < 1000 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err := json.Unmarshal([]byte(r.ctl(t, "show", "report", "--json")), &report); err != nil {
			t.Fatal(err)
		}
	}
	status, text := r.scrape(t, "/metrics")
	if status != 200 {
		t.Fatalf("status %d: %s", status, text)
	}
	checks := 0
	check := func(want uint64, name string, labels ...any) {
		t.Helper()
		checks++
		if line := fmt.Sprintf("%s{%s} %s\n", name, fmt.Sprintf(labels[0].(string), labels[1:]...), strconv.FormatFloat(float64(want), 'g', -1, 64)); !strings.Contains(text, line) {
			t.Errorf("no line %q", line)
		}
	}
	for _, p := range report.Ports {
		check(p.Received, "weir_port_received_packets_total", `port="%s"`, p.Name)
		check(p.Forwarded, "weir_port_forwarded_packets_total", `port="%s"`, p.Name)
		check(p.Transmitted, "weir_port_transmitted_packets_total", `port="%s"`, p.Name)
		for reason, n := range p.Dropped {
			check(n, "weir_port_dropped_packets_total", `port="%s",reason="%s"`, p.Name, reason)
		}
	}
	for _, s := range report.Stages {
		check(s.Packets, "weir_stage_packets_total", `stage="%s"`, s.Name)
		check(s.Dropped, "weir_stage_dropped_packets_total", `stage="%s"`, s.Name)
	}
	check(report.Dropped["acl_denied"], "weir_acl_matched_packets_total", `action="deny",rule="half"`)
	if report.Received != 1000 || report.Dropped["acl_denied"] == 0 || checks < 18 {
		t.Errorf("%d checks of %+v", checks, report)
	}
	if status, text := r.scrape(t, "/healthz"); status != 200 || text != "ok\n" {
		t.Errorf("health: status %d, %s", status, text)
	}
	checkDashboard(t, text)
}

// checkDashboard: every metric of the dashboard is in a scrape, or one of the stage
// that a router does not have.
func checkDashboard(t *testing.T, scrape string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(scrape))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range bridgeMetrics(t) {
		families["weir_l2_"+m] = nil
	}
	text, err := os.ReadFile("../../dist/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	metrics := regexp.MustCompile(`\b[a-z0-9_]+\{`)
	for _, p := range dashboard.Panels {
		if seen[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q, is there twice or has no query", p.ID, p.Title)
		}
		seen[p.ID] = true
		for _, target := range p.Targets {
			names := metrics.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("panel %q has no query: %s", p.Title, target.Expr)
			}
			for _, name := range names {
				if _, ok := families[strings.TrimSuffix(name, "{")]; !ok {
					t.Errorf("panel %q asks for %s, which does not exist", p.Title, name)
				}
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("%d panels", len(seen))
	}
}

// readUnit reads the keys of a unit, each after its section.
func readUnit(text string) (keys map[string][]string, faults []string) {
	keys = map[string][]string{}
	section := ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = line
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" || strings.ContainsAny(key, " \t") {
				faults = append(faults, fmt.Sprintf("line %d is no key: %q", i+1, line))
			}
			keys[section+key] = append(keys[section+key], value)
		}
	}
	return keys, faults
}

// TestUnit: each unit starts what there is, with keys that systemd knows, leaves the command what it needs, and gives up
// a file that it cannot start.
func TestUnit(t *testing.T) {
	for name, u := range map[string]struct {
		commands []string
		needs    []cap.Value
		wait     time.Duration // for what comes late at boot: an interface, an address
	}{
		"weir@.service":        {[]string{"ExecStart", "ExecReload"}, privilege.ForPorts, 30 * time.Second},
		"weir-collect.service": {[]string{"ExecStart"}, nil, 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../../dist/" + name)
			if err != nil {
				t.Fatal(err)
			}
			keys, faults := readUnit(string(text))
			for _, fault := range faults {
				t.Error(fault)
			}
			for key, values := range keys {
				if len(values) != 1 {
					t.Errorf("%s is there %d times", key, len(values))
				}
			}
			value := func(key string) string { return strings.Join(keys[key], " ") }
			for _, key := range u.commands {
				args := strings.Fields(strings.ReplaceAll(value("[Service]"+key), "%i", "name"))
				if len(args) < 2 {
					t.Fatalf("%s: %v", key, args)
				}
				command, rest, err := newRootCommand().Find(args[1:])
				if err == nil {
					err = command.ParseFlags(rest)
				}
				if err != nil || args[0] != "/usr/bin/weir" || command.RunE == nil {
					t.Errorf("%s: %v: %v", key, args, err)
				}
			}
			granted := strings.Fields(strings.ToLower(value("[Service]CapabilityBoundingSet")))
			for _, c := range u.needs {
				if !slices.Contains(granted, c.String()) {
					t.Errorf("the unit does not grant %s", c)
				}
			}
			if keys["[Service]CapabilityBoundingSet"] == nil || u.needs == nil && len(granted) != 0 {
				t.Errorf("the unit grants %q", granted)
			}
			checkStarts(t, value, u.wait)
			verifyUnit(t, name, string(text))
		})
	}
}

// checkStarts: a unit gives up on a mistyped file, and not before what comes late at boot was waited for.
func checkStarts(t *testing.T, value func(key string) string, wait time.Duration) {
	t.Helper()
	pause, err := time.ParseDuration(value("[Service]RestartSec"))
	burst, burstErr := strconv.Atoi(value("[Unit]StartLimitBurst"))
	interval, intervalErr := strconv.Atoi(value("[Unit]StartLimitIntervalSec"))
	if err := errors.Join(err, burstErr, intervalErr); err != nil {
		t.Fatal(err)
	}
	tried := time.Duration(burst-1) * pause
	if tried < wait || 2*tried > time.Duration(interval)*time.Second { // a start takes time too
		t.Errorf("%d starts every %v are tried within %v, in an interval of %d s", burst, pause, tried, interval)
	}
}

// verifyUnit has systemd, where it is there, look at a unit.
func verifyUnit(t *testing.T, name, text string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze: the keys' names are not checked")
		return
	}
	// It looks for the program: a copy of the unit names one that is there.
	unit := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(text, "/usr/bin/weir", "/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
	stem, _, _ := strings.Cut(name, ".")
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, stem) {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	t.Logf("systemd-analyze verify: %v %s", err, out)
}

// bridgeMetrics are the names of the counters of stage l2.
func bridgeMetrics(t *testing.T) (names []string) {
	t.Helper()
	m, err := l2.New(l2.DefaultConfig(), pipeline.Env{Workers: 1, Ports: []pipeline.Port{{Name: "p0"}}})
	if err != nil {
		t.Fatal(err)
	}
	m.Metrics(func(x pipeline.Metric) { names = append(names, x.Name) })
	return names
}
