package main

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// endingSwitch runs every kind of telemetry that makes records; %s is its plan, and its folder of records.
const endingSwitch = `
[switch]
name = "s1"
id = 1
hash = "crc"
graph = ["parse", "oblivious", "patch", "pint", "disketch", "lds_egress"]

[[port]]
interface = "p0"

[[port]]
interface = "p1"

[stages.patch]
pairs = [["p0", "p1"]]

[stages.oblivious]
unit = "packets"
kind = "dus"
epoch_bits = 31

[stages.pint]
plan = %q
edge = ["p0", "p1"]
switches = [1]
interval_bits = 31

[stages.disketch]
epoch_bits = 31

[[stages.disketch.fragment]]
memory = 4096
candidates = -1

[stages.lds_egress]
ports = ["p1"]
columns = 64
interval_bits = 31

[telemetry]
spool = %q
`

// TestP4QueuedPackets: packets that wait in a queue when the switch receives SIGINT still leave, and are in its records.
func TestP4QueuedPackets(t *testing.T) {
	compiled := compiledWeir(t, hash.CRC)
	b := newTestbed(t, 0)
	plan, err := filepath.Abs("../../p4/testdata/setups/plan-shim.toml")
	if err != nil {
		t.Fatal(err)
	}
	spool := filepath.Join(b.dir, "records")
	p := &process{cmd: weirCommand("p4", "switch", "-c", writeFile(t, fmt.Sprintf(endingSwitch, plan, spool)), "--program", compiled,
		"--queue-rate", "p1=10", "--report", "json")}
	b.startCommand(t, p)
	from := b.hosts[0].Packet(t)
	const n = 12 // which wait for 1.1 s, with pauses as long as that without any copies
	for i := range n {
		if err := from.Send(udpFrame(uint16(i))); err != nil {
			t.Fatal(err)
		}
	}
	if status := p.stop(t); status != 0 {
		t.Fatalf("status %d: %s", status, &p.stderr)
	}
	if r := p.report(t); r.Received != n || r.Forwarded != n || !r.Balanced {
		t.Errorf("%d of %d packets received, %d forwarded, dropped %v: the switch did not wait for its queue", r.Received, n, r.Forwarded, r.Dropped)
	}
	m := readMeasured(t, spool, hash.CRC)["s1"]
	if m == nil {
		t.Fatal("there are no records")
	}
	if m.counted+m.missed != n || m.sampled != n || len(m.entries) != n || m.left != n || m.digests != n {
		t.Errorf("of %d packets the records have %d and miss %d, sampled %d with %d entries, %d left, %d digests",
			n, m.counted, m.missed, m.sampled, len(m.entries), m.left, m.digests)
	}
}

// udpFrame is a datagram of 10.0.0.1 for 10.0.0.2, without a checksum, one of a flow.
func udpFrame(number uint16) []byte {
	f := testFrame(2, 1, 0)
	f[12], f[13] = 0x08, 0x00
	ip := f[14:]
	copy(ip, []byte{0x45, 0, 0, 46, byte(number >> 8), byte(number), 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 8, 0, 26})
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return f
}
