package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
)

// TestPintDissector captures in the middle of a chain, on a Linux bridge that
// knows nothing of shims, and has tshark read it with docs/pint.lua.
func TestPintDissector(t *testing.T) {
	netnstest.Require(t)
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("WEIR_REQUIRE_TSHARK") == "1" {
			t.Fatal("tshark is not installed, and WEIR_REQUIRE_TSHARK=1")
		}
		t.Skip("tshark is not installed (Debian: apt-get install tshark)")
	}
	l := newPintLab(t, chainOfFive(`["parse", "l2", "pint"]`, "", true), flatAddresses)
	middle, err := labHost(t, l.name, "b1").PacketSocket("p0")
	if err != nil {
		t.Fatal(err)
	}
	l.tcp(1, 1<<18)
	l.udp(4, 70, 100)
	l.ping(6, 20)
	frames, err := middle.ReceiveAll(200*time.Millisecond, 0, func([]byte) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	var records []pcaptest.Record
	for i, f := range frames {
		records = append(records, pcaptest.Ethernet(int64(i)*1000, string(f)))
	}
	path := pcaptest.Write(t, "middle.pcap", pcapfile.Format{LinkField: uint32(pcapfile.Ethernet)}, records...)

	text, err := exec.Command(tshark, "-X", "lua_script:../../docs/pint.lua", "-r", path, "-Y", "pint", "-T", "fields",
		"-e", "pint.hop", "-e", "pint.plan", "-e", "pint.digest", "-e", "frame.protocols", "-e", "pint.version", "-e", "_ws.malformed").Output()
	if err != nil {
		t.Fatalf("tshark: %v %s", err, text)
	}
	seen := map[string]int{}
	digests := map[string]bool{}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		c := strings.Split(line, "\t")
		if len(c) < 5 || c[0] != "3" || c[1] != "1" || len(c[2]) != 4 || c[4] != "1" || !strings.HasPrefix(c[3], "eth:ethertype:pint:") {
			t.Fatalf("tshark reads %q", line)
		}
		digests[c[2]] = true
		for _, p := range []string{"tcp", "udp", "icmpv6"} {
			if slices.Contains(strings.Split(c[3], ":"), p) {
				seen[p]++
			}
		}
	}
	t.Logf("tshark reads %d of %d frames with a shim of hop 3: %v, %d digests", len(lines), len(frames), seen, len(digests))
	if len(lines) < 90 || seen["tcp"] < 10 || seen["udp"] < 70 || seen["icmpv6"] < 20 || len(digests) < 20 {
		t.Errorf("tshark reads %d shims: %v, %d digests", len(lines), seen, len(digests))
	}
	l.settle()
	for i := range 2 {
		l.compareAtLeast(i, 20, func(f []byte) []byte { return f })
	}
}
