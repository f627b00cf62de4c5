package lab

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/internal/keyfile"
)

// collected is a lab with a relay in a cable, a bridge, and a collector.
const collected = `
[collector]
[collector.config.retention]
bytes = 100_000_000
[[host]]
name = "h1"
addresses = ["10.0.0.1/24", "fd00::1/64"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]
[[switch]]
name = "s1"
graph = ["parse", "patch"]
[[switch]]
name = "s2"
graph = ["parse", "patch"]
[[relay]]
name = "slow"
[[bridge]]
name = "b1"
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "slow:left"]
[[link]]
endpoints = ["s2:p0", "slow:right"]
[[link]]
endpoints = ["s2:p1", "b1:p0"]
[[link]]
endpoints = ["b1:p1", "h2"]
`

func TestCollectorConfig(t *testing.T) {
	c, err := Parse(collected, "one")
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.collectorConfig("/run/x", "/data", "/lab.toml")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := toml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"collect": map[string]any{
			"name": "one", "listen": collectorPage, "socket": "/run/x/collector.sock", "data": "/data", "lab": "/lab.toml",
		},
		"nats":      map[string]any{"listen": collectorNATS},
		"limits":    map[string]any{"query_time": "5m0s"},
		"retention": map[string]any{"bytes": int64(100_000_000)},
		"link": []map[string]any{
			{"ends": []any{"h1", "s1:p0"}}, {"ends": []any{"s1:p1", "s2:p0"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	sw, err := c.switchConfig(0, "/run/x", "/run/x/spool")
	if err != nil || !strings.Contains(string(sw), `collector = ["nats://`+collectorNATS) {
		t.Errorf("%v: %s", err, sw)
	}
}

func TestCollectorRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[collector]\nlisten = \"192.0.2.1:80\"\n" + collected[len("\n[collector]\n[collector.config.retention]\nbytes = 100_000_000\n"):]: "collector.listen",
		strings.ReplaceAll(collected, `"h2"`, `"collector"`):                                                                               "is the name of a part of [collector]",
		strings.Replace(collected, "[collector]", "[collector]\nport = 1", 1):                                                              "collector.port: there is no such key",
	} {
		if _, err := Parse(text, "one"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// duplicate is a descriptor of a file that belongs to who is given it.
func duplicate(t *testing.T, file *os.File) int {
	t.Helper()
	defer file.Close()
	fd, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestForward carries a connection in both directions, ends with its context, and refuses what is no listener.
func TestForward(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() { // echoes what it reads to its end
		for {
			c, err := far.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := near.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	near.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	config := &ForwardConfig{Forwards: []ForwardTo{{FD: duplicate(t, file), To: far.Addr().String()}}}
	go func() { ended <- Forward(ctx, config, func() { close(ready) }) }()
	<-ready
	c, err := net.Dial("tcp", near.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "what comes back"); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	if back, err := io.ReadAll(c); err != nil || string(back) != "what comes back" {
		t.Errorf("%q, %v", back, err)
	}
	open, err := net.Dial("tcp", near.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end with its context")
	}
	plain, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	config.Forwards[0].FD = duplicate(t, plain)
	if err := Forward(t.Context(), config, func() { t.Error("a file is listened on") }); err == nil {
		t.Error("a file for a listener: no error")
	}
}

// TestForwardEnds ends it at once, again and again: it never stays because its listener does.
func TestForwardEnds(t *testing.T) {
	for range 2000 {
		near, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		file, err := near.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		near.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended := make(chan struct{}), make(chan error, 1)
		config := &ForwardConfig{Forwards: []ForwardTo{{FD: duplicate(t, file), To: "127.0.0.1:1"}}}
		go func() { ended <- Forward(ctx, config, func() { close(ready) }) }()
		<-ready
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it does not end with its context")
		}
	}
}

// TestDrawnKey: each run of a lab that keeps records has another key, which its switches and its collector have, unless a switch cannot.
func TestDrawnKey(t *testing.T) {
	drawn := map[string]bool{}
	for range 2 {
		c, err := Parse(collected, "one")
		if err != nil {
			t.Fatal(err)
		}
		l := &Lab{config: c, dir: &runDirectory{path: t.TempDir()}}
		if err := l.makeRecords(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(l.records, KeyFile)
		k, err := keyfile.Load(path)
		if err != nil || drawn[string(k[:])] {
			t.Errorf("%v, or drawn before", err)
		}
		drawn[string(k[:])] = true
		collector, err := l.config.collectorConfig("/run/x", "/data", "/lab.toml")
		if err != nil || !strings.Contains(string(collector), `keys = ["`+path+`"]`) {
			t.Errorf("%v: %s", err, collector)
		}
		sw, err := l.config.switchConfig(0, "/run/x", "")
		if err != nil || !strings.Contains(string(sw), `key = "`+path+`"`) {
			t.Errorf("%v: %s", err, sw)
		}
		if c.Key != "" {
			t.Errorf("the next run would have the same key, %s", c.Key)
		}
	}
	const s2 = "name = \"s2\"\ngraph = [\"parse\", \"patch\"]\n"
	texts := []string{"key = \"none\"\n" + collected}
	for _, more := range []string{
		"kind = \"bmv2\"", "[switch.config.switch]\nhash = \"crc\"", "[switch.config.stages.pint]\nplan = \"plan.toml\"", "[switch.config.telemetry]\nspool = \"/spool\"",
	} {
		texts = append(texts, strings.Replace(collected, s2, s2+more+"\n", 1))
	}
	for _, text := range texts {
		c, err := Parse(text, "one")
		if err != nil {
			t.Fatal(err)
		}
		l := &Lab{config: c, dir: &runDirectory{path: t.TempDir()}}
		if err := l.makeRecords(); err != nil {
			t.Fatal(err)
		}
		sw, err := l.config.switchConfig(0, "/run/x", "")
		if left, _ := os.ReadDir(l.records); err != nil || len(left) != 0 || strings.Contains(string(sw), "key =") {
			t.Errorf("%v, %v: %s", err, left, sw)
		}
	}
}

// TestKey: a lab's key is that of all switches and of the collector; switches of P4 have none.
func TestKey(t *testing.T) {
	c, err := Parse("key = \"network.key\"\n"+collected, "one")
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs("network.key")
	if err != nil {
		t.Fatal(err)
	}
	collector, err := c.collectorConfig("/run/x", "/data", "/lab.toml")
	if err != nil || !strings.Contains(string(collector), `keys = ["`+path+`"]`) {
		t.Errorf("%v: %s", err, collector)
	}
	sw, err := c.switchConfig(0, "/run/x", "")
	if err != nil || !strings.Contains(string(sw), `key = "`+path+`"`) {
		t.Errorf("%v: %s", err, sw)
	}
	_, err = Parse("key = \"network.key\"\n"+strings.Replace(collected, "name = \"s2\"", "name = \"s2\"\nkind = \"bmv2\"", 1), "one")
	if err == nil || !strings.Contains(err.Error(), `key: switch "s2" is of P4`) {
		t.Error(err)
	}
}
