package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsstream "github.com/nats-io/nats.go/jetstream"
	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/internal/freeport"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/view/api"
)

// measuringSwitch has all telemetry.
const measuringSwitch = `[switch]
name = "one"
id = 9
graph = ["parse", "lds_ingress", "oblivious", "patch", "disketch", "pint", "lds_egress"]
[[port]]
name = "p0"
interface = "eth0"
[[port]]
name = "p1"
interface = "eth1"
[stages.patch]
pairs = [["p0", "p1"]]
[stages.oblivious]
epoch_bits = 28
flows = true
`

// lockedBuffer is written by a process's reader while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// liveCollect is a collector in its own process.
type liveCollect struct {
	url, socket, nats string
	stderr            lockedBuffer
}

// startCollect starts a collector on loopback and waits until it is ready. The text in more is
// added to its configuration.
func startCollect(t *testing.T, more string) *liveCollect {
	t.Helper()
	dir := t.TempDir()
	web, broker := freeport.Address(t), freeport.Address(t)
	l := &liveCollect{url: "http://" + web, socket: "unix://" + filepath.Join(dir, "c.sock"), nats: "nats://" + broker}
	file := filepath.Join(dir, "collect.toml")
	text := fmt.Sprintf("[collect]\nlisten = %q\nsocket = %q\ndata = %q\n%s\n[nats]\nlisten = %q\n", web, strings.TrimPrefix(l.socket, "unix://"), filepath.Join(dir, "data"), more, broker)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ready, child, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	cmd := weirCommand("collect", "-c", file)
	cmd.Stdout, cmd.Stderr = &l.stderr, &l.stderr
	cmd.ExtraFiles = []*os.File{child} // descriptor 3
	cmd.Env = append(cmd.Env, readyVariable+"=3")
	err = cmd.Start()
	_ = child.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the collector ends with %v:\n%s", err, &l.stderr)
		}
	})
	_ = ready.SetReadDeadline(time.Now().Add(3 * time.Minute))
	if n, err := ready.Read(make([]byte, 16)); n == 0 {
		t.Fatalf("the collector is not ready: %v\n%s", err, &l.stderr)
	}
	return l
}

// publish gives a folder's records to the collector, as a switch would, and waits until it has
// taken them.
func (l *liveCollect) publish(t *testing.T, folder string) {
	t.Helper()
	nc, err := nats.Connect(l.nats, nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	files, err := filepath.Glob(filepath.Join(folder, "*.records"))
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, file := range files {
		rest, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for len(rest) > 0 {
			h, _, behind, err := record.Decode(rest)
			if err != nil {
				t.Fatal(err)
			}
			encoded := rest[:len(rest)-len(behind)]
			if _, err := js.Publish(ctx, jetstream.Subject(&h), encoded, natsstream.WithMsgID(jetstream.ID(jetstream.Secret{}, encoded, h.Switch))); err != nil {
				t.Fatal(err)
			}
			rest = behind
			sent++
		}
	}
	for {
		status, out, stderr := weir("query", "collector", "--json", "--collector", l.url)
		var c struct {
			Kinds []struct{ Records, Unreadable, Conflicts int }
		}
		if err := json.Unmarshal([]byte(out), &c); status != 0 || err != nil {
			t.Fatalf("status %d, %v: %s%s", status, err, out, stderr)
		}
		taken := 0
		for _, k := range c.Kinds {
			taken += k.Records
			if k.Unreadable+k.Conflicts > 0 {
				t.Fatal(out)
			}
		}
		if taken == sent && sent > 0 {
			time.Sleep(200 * time.Millisecond) // until no question is answered from an earlier view of the store
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d records of %d: %s\n%s", taken, sent, out, &l.stderr)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestQueryViews: a collector answers each kind of question as the folder of the same records
// does, to the letter, by its address and by its socket, once and again.
func TestQueryViews(t *testing.T) {
	records := t.TempDir()
	if status, _, stderr := runReplay(t, "--chain", "3", "-c", writeFile(t, measuringSwitch), "--in", pcaptest.Flows(t, 4000), "--records", records); status != 0 {
		t.Fatal(stderr)
	}
	paths := filepath.Join(t.TempDir(), "paths.json")
	if err := os.WriteFile(paths, []byte(`[{"switches": ["s1", "s2", "s3"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	collector := startCollect(t, fmt.Sprintf("paths = %q\n", paths))
	collector.publish(t, records)
	flow := ""
	status, out, stderr := weir("query", "heavy-hitters", "--records", records, "--json", "--theta", "0.001")
	var h struct{ Flows []struct{ Flow string } }
	if err := json.Unmarshal([]byte(out), &h); status != 0 || err != nil || len(h.Flows) == 0 {
		t.Fatalf("status %d, %v: %s%s", status, err, out, stderr)
	}
	flow = h.Flows[0].Flow
	for _, line := range [][]string{
		{"volume"}, {"volume", "--proto", "udp", "--start", "1000000001000000000", "--delta", "0.01"}, {"volume", "--step", "300ms"},
		{"heavy-hitters", "--theta", "0.01", "--limit", "3"}, {"heavy-hitters", "--by", "sketch", "--theta", "0.01"}, {"heavy-hitters", "--at", "s2", "--unit", "bytes", "--theta", "0.01"},
		{"frequency", "--flow", flow}, {"cardinality"}, {"delay", "--from", "s1", "--to", "s2"}, {"loss", "--from", "s1", "--to", "s2", "--flow", flow}, {"target"},
		{"path", "--flow", flow}, {"path", "--limit", "5"}, {"latency", "--flow", flow, "--quantiles", "0.25,0.75"}, {"latency"}, {"congestion", "--limit", "4"}, {"loops"},
	} {
		for _, form := range [][]string{{"--json"}, nil} {
			args := append(append([]string{"query"}, line...), form...)
			status, want, stderr := weir(append(args, "--records", records, "--paths", paths)...)
			if status != 0 {
				t.Errorf("%v of the folder: status %d: %s", line, status, stderr)
				continue
			}
			for i, url := range []string{collector.url, collector.socket} {
				if testing.Short() && (i == 0) != (form == nil) {
					continue // text by one, JSON by the other
				}
				if status, got, stderr := weir(append(args, "--collector", url)...); status != 0 || got != want {
					t.Errorf("%v of %s: status %d, %s\n%s\nthe folder says\n%s", line, url, status, stderr, got, want)
				}
			}
		}
	}
	t.Run("watch", func(t *testing.T) { watchViews(t, collector, records) })
	t.Run("faults", func(t *testing.T) { faultViews(t, collector, records) })
	t.Run("records", func(t *testing.T) { recordViews(t, collector, records) })
	t.Run("parquet", func(t *testing.T) {
		var files [2][]byte
		for i, from := range [][]string{{"--records", records}, {"--collector", collector.url}} {
			file := filepath.Join(t.TempDir(), "volume.parquet")
			status, out, stderr := weir(append([]string{"query", "volume", "--parquet", file}, from...)...)
			b, err := os.ReadFile(file)
			if status != 0 || out != "" || err != nil || !bytes.HasPrefix(b, []byte("PAR1")) {
				t.Fatalf("status %d, %q, %s, %v", status, out, stderr, err)
			}
			files[i] = b
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Error("the files of the command line and the API differ")
		}
	})
}

// recordViews has the records themselves written, by the collector and by the folder.
func recordViews(t *testing.T, collector *liveCollect, records string) {
	table := func(args ...string) (rows int64, switches []string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "records.parquet")
		if status, out, stderr := weir(append([]string{"query", "records", "--parquet", file}, args...)...); status != 0 || out != "" {
			t.Fatalf("%v: status %d, %q, %s", args, status, out, stderr)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := parquet.NewGenericReader[struct {
			Switch string `parquet:"switch"`
		}](f)
		defer r.Close()
		list := make([]struct {
			Switch string `parquet:"switch"`
		}, r.NumRows())
		if n, err := r.Read(list); n != len(list) {
			t.Fatal(n, err)
		}
		for _, x := range list {
			if !slices.Contains(switches, x.Switch) {
				switches = append(switches, x.Switch)
			}
		}
		slices.Sort(switches)
		return r.NumRows(), switches
	}
	for _, kind := range []string{"samples", "points", "fragments", "digests"} {
		want, of := table("--kind", kind, "--records", records)
		if want == 0 {
			t.Errorf("%s: the folder has none", kind)
		}
		for _, url := range []string{collector.url, collector.socket} {
			if got, by := table("--kind", kind, "--collector", url); got != want || !slices.Equal(of, by) {
				t.Errorf("%s of %s: %d rows of %v, the folder has %d of %v", kind, url, got, by, want, of)
			}
		}
		said := ""
		for i, from := range [][]string{{"--records", records}, {"--collector", collector.url}} {
			none := filepath.Join(t.TempDir(), "none.parquet")
			status, _, stderr := weir(append([]string{"query", "records", "--kind", kind, "--parquet", none, "--end", "1"}, from...)...)
			if status != 1 || !strings.Contains(stderr, "no records of "+kind+" from ") || !strings.Contains(stderr, "there are some from ") || i == 1 && stderr != said {
				t.Errorf("%s, %v: status %d, %q; the folder says %q", kind, from, status, stderr, said)
			}
			if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a file is left: %v", err)
			}
			said = stderr
		}
	}
	file := filepath.Join(t.TempDir(), "none.parquet")
	for line, want := range map[string]string{
		"--kind samples": "--parquet: records needs it", "--parquet " + file: `--kind "": choose one of`,
		"--kind samples --last -1s --parquet " + file:                          "--last -1s: choose",
		"--kind samples --paths x --parquet " + file:                           "--paths is for records in a folder",
		"--kind samples --parquet " + file + " --start yesterday":              "write a time as",
		"--kind samples --parquet " + file + " --collector http://127.0.0.1:1": "no collector listens",
	} {
		if status, _, stderr := weir(append([]string{"query", "records"}, strings.Fields(line)...)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want %q", line, status, stderr, want)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
	for path, want := range map[string]int{"none": http.StatusNotFound, "samples?x=1": http.StatusBadRequest, "samples?from_ns=-1": http.StatusBadRequest} {
		r, err := http.Get(collector.url + "/records/" + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}

// watchViews watches by command line and API, and ends as a user would.
func watchViews(t *testing.T, collector *liveCollect, records string) {
	for _, from := range [][]string{{"--records", records}, {"--collector", collector.url}} {
		cmd := weirCommand(append([]string{"query", "volume", "--watch", "100ms", "--json"}, from...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err := errors.Join(err, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(out)
		for i := range 3 {
			var v struct {
				NaivePackets int `json:"naive_packets"`
			}
			if err := d.Decode(&v); err != nil || v.NaivePackets != 12000 {
				t.Errorf("%v, answer %d: %+v, %v", from, i, v, err)
			}
		}
		_ = cmd.Process.Signal(unix.SIGINT)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v: %s", from, err, &stderr)
		}
	}
}

// faultViews asks what cannot be answered: command line and API say the same, with the same status.
func faultViews(t *testing.T, collector *liveCollect, records string) {
	for _, c := range []struct {
		line   string
		status int
		says   string
	}{
		{"entropy", 1, "no records"},
		{"volume --start 1 --end 2", 1, "there are some from 2001-"},
		{"volume --start 2 --end 1", 2, "--end 1: it must be behind --start"},
		{"volume --src ten --port x", 2, "weir: --src: \"ten\" is no prefix"},
		{"delay --from s8 --to s9", 2, `"s8" sent no records`},
		{"volume --watch 1ms", 2, "--watch 1ms: choose 100ms to 1h"},
		{"volume --start yesterday", 2, "--start \"yesterday\": write a time as"},
		{"latency --quantiles 2", 2, "--quantiles[0] is 2: choose"},
	} {
		want := ""
		for i, from := range [][]string{{"--records", records}, {"--collector", collector.url}} {
			status, _, stderr := weir(append(append([]string{"query"}, strings.Fields(c.line)...), from...)...)
			if status != c.status || !strings.Contains(stderr, c.says) || i == 1 && stderr != want {
				t.Errorf("%s, %v: status %d, %q; want %d, %q; of the folder %q", c.line, from, status, stderr, c.status, c.says, want)
			}
			want = stderr
		}
	}
	for line, says := range map[string]string{
		"volume --collector http://127.0.0.1:1":                                   "no collector listens on http://127.0.0.1:1",
		"volume --records " + records + " --collector " + collector.url:           "choose one of them",
		"volume --lab x.toml --collector " + collector.url:                        "--lab is for records in a folder",
		"volume --timeout 1s --records " + records:                                "--timeout is for a collector",
		"volume --tls-ca a --tls-cert b --tls-key c --collector " + collector.url: "certificates are for https",
		"volume --tls-ca a --collector https://127.0.0.1:1":                       "they go together",
		"collector --records " + records:                                          "--records is for questions",
		"collector --watch 1s --collector " + collector.url:                       "--watch is for questions",
		"volume --timeout 1ns --collector " + collector.url:                       "did not answer within 1ns",
		"path --flow frog --collector " + collector.url:                           "--flow:",
	} {
		if status, _, stderr := weir(append([]string{"query"}, strings.Fields(line)...)...); status == 0 || !strings.Contains(stderr, says) {
			t.Errorf("%s: status %d, %q, want %q", line, status, stderr, says)
		}
	}
}

// TestPatience: --timeout ends what the collector would still answer, and where the collector's own limit is shorter the message says so, with its value and its key.
func TestPatience(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(api.NewHandler(api.Config{
		Ask: func(ctx context.Context, _ *query.Question) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		Limits: api.Limits{Time: 200 * time.Millisecond},
	}))
	server := httptest.NewServer(mux)
	defer server.Close()
	for timeout, want := range map[string]string{
		"50ms": "did not answer within 50ms: see whether it hangs, or raise --timeout",
		"2m":   "at most 200ms, with the wait for its turn ([limits] query_time of its configuration): ask about less, or again later; --timeout 2m0s has no effect on this limit",
	} {
		status, _, stderr := weir("query", "volume", "--collector", server.URL, "--timeout", timeout)
		if status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("--timeout %s: status %d, %q, want %q", timeout, status, stderr, want)
		}
	}
}
