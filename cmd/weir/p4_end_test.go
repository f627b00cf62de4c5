package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/p4/bmv2"
	"github.com/weirswitch/weir/p4/records"
	"github.com/weirswitch/weir/telemetry/export"
)

// endingSwitch counts in all ways that make records; %s is its plan, and its folder of records.
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

// TestP4QueuedPackets: packets that wait in a queue when the switch is told to end still leave, and are in its records.
func TestP4QueuedPackets(t *testing.T) {
	compiled := compiledWeir(t)
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
	m := readMeasured(t, spool)["s1"]
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

// blank is a target that counts nothing.
type blank struct{}

func (blank) Registers(string) ([]uint64, error) { return make([]uint64, 1<<17), nil }

func (blank) WriteRegister(string, int, uint64) error { return nil }

// TestP4FinalReport: what comes to the CPU port until all packets have left is taken in, and the records are made
// behind that. What is no copy, is nobody's or comes later is in the report.
func TestP4FinalReport(t *testing.T) {
	netnstest.Require(t)
	c, err := config.Load(writeFile(t, p4Switch1))
	if err != nil {
		t.Fatal(err)
	}
	source, err := records.New(records.Config{Switch: p4Switch(c), Target: blank{}, Clock: taiNow})
	if err != nil {
		t.Fatal(err)
	}
	ns := netnstest.New(t, prefix)
	r := &p4Records{end: make(chan struct{})}
	if err := ns.Do(func() (err error) {
		r.cpu, err = bmv2.OpenCPUPort()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r.source = &p4Source{Source: source, cpu: r.cpu}
	if r.export, err = export.NewPath(c.Telemetry, c.Switch.ID, c.Switch.Name, c.Switch.Hash, nil, r.source); err != nil {
		t.Fatal(err)
	}
	r.running.Go(r.read)
	port, err := ns.PacketSocket(r.cpu.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	come := func(frames ...[]byte) {
		t.Helper()
		before := r.came.Load()
		for _, f := range frames {
			if err := port.Send(f); err != nil {
				t.Fatal(err)
			}
		}
		for deadline := time.Now().Add(10 * time.Second); r.came.Load() != before+uint64(len(frames)); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d frames came", r.came.Load()-before, len(frames))
			}
		}
	}
	taken, finished := 0, 0
	r.finish = func() error {
		finished = taken
		err := r.export.Close(taiNow())
		come(cpuFrame(1), cpuFrame(1))
		return err
	}
	report, err := finalReport(func() (*api.ReportResponse, error) {
		if taken++; taken == 3 {
			come(make([]byte, 60), cpuFrame(2))
		}
		return &api.ReportResponse{Balanced: taken == 3}, nil
	}, r)
	if err != nil || taken != 3 || finished != 3 {
		t.Errorf("%v; %d reports were taken, the records were made behind %d", err, taken, finished)
	}
	drops := map[string]float64{}
	for _, m := range report.GetMetrics() {
		if m.Stage == "p4" && m.Name == "dropped_copies_total" {
			drops[m.Labels["reason"]] = m.Value
		}
	}
	if want := map[string]float64{records.DropForeign: 1, records.DropUnclaimed: 1, records.DropLate: 2}; !maps.Equal(drops, want) {
		t.Errorf("the report has dropped copies %v, want %v", drops, want)
	}
	// Once is enough, also with an error.
	r.finish = func() error { return errors.New("again") }
	if err := r.stop(); err != nil {
		t.Errorf("a second end: %v", err)
	}
}

// cpuFrame is a copy of a kind at the CPU port, of now.
func cpuFrame(kind byte) []byte {
	f := append([]byte{kind}, make([]byte, 23)...)
	return append(binary.BigEndian.AppendUint64(f, uint64(taiNow())), udpFrame(0)...)
}
