package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab"
)

// TestFeedbackLab: a sender in user space that begins with many times what it should send hears of its path from the sink, slows down,
// and then uses the fullest link to its target or less. A machine with much else to do may send less than the rate, never more.
func TestFeedbackLab(t *testing.T) {
	const target = 0.003 // of 10 Gbit/s, about 2,600 packets/s
	l := newPintLab(t, chainOfFive(`["parse", "l2", "pint"]`, "feedback_port = 5010\nround_trip = \"20ms\"\n", false), flatAddresses)
	l.ping(4, 4)
	pace := filepath.Join(t.TempDir(), "pace")
	if out, err := exec.Command("go", "build", "-o", pace, "../../examples/pace").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	sink := l.packetConn(1, "udp", l.bound(1, 0, udpTo)) // else h2 refuses the packets
	defer sink.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := exec.CommandContext(ctx, "ip", "netns", "exec", lab.NamespaceName(l.name, "h1"), pace,
		"-to", fmt.Sprintf("10.0.0.2:%d", udpTo), "-feedback", "5010", "-target", fmt.Sprint(target), "-rate", "20000", "-count", "2000")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var first, least, settled float64
	var messages, good int
	for lines := bufio.NewScanner(out); lines.Scan() && good < 10; messages++ {
		var use, rate float64
		if _, err := fmt.Sscanf(lines.Text(), "use %g rate %g", &use, &rate); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if messages < 5 {
			first = max(first, use)
		}
		if least == 0 || rate < least {
			least = rate
		}
		// Some bursts are over the target; ten messages in a row that are not, after the rate fell, are enough.
		if least < 10_000 && use > 0 && use <= 1.5*target {
			good++
			settled = use
		} else {
			good = 0
		}
	}
	cancel()
	_ = c.Wait() // it was ended
	t.Logf("%d messages; use %.4f at first, %.4f in the end", messages, first, settled)
	if first <= 1.5*target {
		t.Errorf("the sender begins at a use of %.4f: no overload was reported", first)
	}
	if good < 10 {
		t.Errorf("the use of the fullest link is not down to the target of %g after %d messages", target, messages)
	}
}
