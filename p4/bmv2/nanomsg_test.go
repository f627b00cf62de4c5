package bmv2

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/process"
)

// speak accepts one connection at a socket and writes to it.
func speak(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write(text)
		time.Sleep(time.Second)
		c.Close()
	}()
	return path
}

func TestMessages(t *testing.T) {
	hello := []byte{0, 'S', 'P', 0, 0, 16, 0, 0}
	m, err := dialMessages(speak(t, append(hello, 1, 0, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c')), protocolPair, protocolPair, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got, err := m.Receive(); err != nil || !bytes.Equal(got, []byte("abc")) {
		t.Errorf("received %q, %v", got, err)
	}
	if _, err := dialMessages(speak(t, []byte{0, 'S', 'P', 0, 0, 32, 0, 0}), protocolPair, protocolPair, time.Second); err == nil || !strings.Contains(err.Error(), "greets") {
		t.Errorf("another protocol: %v", err)
	}
	for _, bad := range [][]byte{{2, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0, 0, 0, 0}} {
		m, err := dialMessages(speak(t, append(hello[:8:8], bad...)), protocolPair, protocolPair, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Receive(); err == nil {
			t.Errorf("% x is no message", bad)
		}
		m.Close()
	}
}

// FuzzProgram: whatever a file holds, it is a program or refused.
func FuzzProgram(f *testing.F) {
	f.Add([]byte(`{"actions": [{"name": "a", "id": 1}], "pipelines": [{"tables": [{"name": "t", "action_ids": [1],
		"key": [{"match_type": "exact", "target": ["h", "f"]}]}]}], "headers": [{"name": "h", "header_type": "x"}],
		"header_types": [{"name": "x", "fields": [["f", 9, false]]}]}`))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = parseProgram(text) })
}

func TestParseValue(t *testing.T) {
	for _, c := range []struct {
		word string
		bits int
		want []byte
	}{
		{"0x1ff", 9, []byte{1, 255}}, {"512", 9, nil}, {"-1", 9, nil}, {"10.0.0.1", 32, []byte{10, 0, 0, 1}}, {"7", 32, []byte{0, 0, 0, 7}},
		{"02:00:00:00:00:01", 48, []byte{2, 0, 0, 0, 0, 1}}, {"::1", 128, append(make([]byte, 15), 1)}, {"10.0.0.1", 128, nil}, {"x", 8, nil},
	} {
		got, err := parseValue(c.word, c.bits)
		if (err == nil) != (c.want != nil) || !bytes.Equal(got, c.want) {
			t.Errorf("%s in %d bits: % x, %v, want % x", c.word, c.bits, got, err, c.want)
		}
	}
}

// TestStarter: only directories of ours whose starter has ended are swept.
func TestStarter(t *testing.T) {
	dir, err := newDirectory()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if id, ok := starterOf(filepath.Base(dir)); !ok || id != process.Self() {
		t.Errorf("the starter of %s is %v, %v", dir, id, ok)
	}
	for _, name := range []string{"weir-bmv2-", "weir-bmv2-12-1", "weir-bmv2-x.1-1", "weir-bmv2-1.?-1", "weir-bmv2-1.1"} {
		if id, ok := starterOf(name); ok {
			t.Errorf("%s has the starter %v", name, id)
		}
	}
}
