package node

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/weirswitch/weir/dataplane/port"
)

// TestBlockedPort: a port that a guard blocks is one warning in the log, whatever arrives there, and the report says so.
func TestBlockedPort(t *testing.T) {
	bpdu := make([]byte, 60)
	copy(bpdu, "\x01\x80\xc2\x00\x00\x00\x02\x00\x00\x00\x00\x01\x00\x26\x42\x42\x03")
	ports := map[string]port.Port{"left": port.NewMemory("left", 1, [][]byte{bpdu}, 0), "right": port.NewMemory("right", 1, nil, 0)}
	core, logged := observer.New(zap.WarnLevel)
	ready := make(chan struct{})
	n, err := New(parse(t, memoryText(t, "[stages.l2]\nbpdu_guard = [\"left\"]\n")),
		Options{Ports: ports, Log: zap.New(core), Ready: func() error { close(ready); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	end := running(t, n, ready)
	for { // BPDUs arrive all the time
		r := n.Report()
		if of := map[string]string{r.Ports[0].Name: r.Ports[0].Blocked, r.Ports[1].Name: r.Ports[1].Blocked}; of["left"] != "" {
			if why := of["left"]; !strings.HasPrefix(why, "bpdu_guard, for ") || !strings.HasSuffix(why, " more: a BPDU arrived on it, which only a bridge sends") || of["right"] != "" {
				t.Errorf("blocked: %v", of)
			}
			if r.Ports[0].Dropped["bpdu_guard"]+r.Ports[1].Dropped["bpdu_guard"] > 100 {
				break
			}
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	lines := logged.FilterMessage("a guard has blocked a port").All()
	if len(lines) != 1 || lines[0].Level != zap.WarnLevel || lines[0].ContextMap()["port"] != "left" || lines[0].ContextMap()["reason"] != "bpdu_guard" {
		t.Errorf("the log: %v", lines)
	}
}
