package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
)

// measuredSwitch is a switch with all four systems; %[1]s is its name, %[2]s what it is, %[3]s the plan, %[4]s its
// edge, %[5]s its port to the other switch, 2^%[6]d ns its epochs and intervals, and %[7]v its hash family.
const measuredSwitch = `
[[switch]]
name = "%[1]s"
%[2]s
graph = ["parse", "oblivious", "lds_ingress", "patch", "pint", "disketch", "lds_egress"]

[switch.config.switch]
hash = "%[7]v"

[switch.config.stages.oblivious]
unit = "packets"
kind = "dus"
epoch_bits = %[6]d

[switch.config.stages.lds_ingress]
ports = ["%[5]s"]
columns = 1024
virtual = 4
banks = [0.1, 0.25, 0.5, 1.0]
interval_bits = %[6]d
interval_bit = true

[switch.config.stages.lds_egress]
ports = ["%[5]s"]
columns = 1024
virtual = 4
banks = [0.1, 0.25, 0.5, 1.0]
interval_bits = %[6]d
interval_bit = true

[switch.config.stages.pint]
plan = "%[3]s"
switches = [1, 2]
edge = ["%[4]s"]
interval_bits = %[6]d

[switch.config.stages.disketch]
epoch_bits = %[6]d

[[switch.config.stages.disketch.fragment]]
memory = 65536
candidates = -1
target = 1e6
`

const measuredLab = `
name = "measured"
static_neighbours = true
quiet = "%v"

[[host]]
name = "h1"
addresses = ["10.0.0.1/24"]

[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]
%s%s
[[link]]
endpoints = ["h1", "s1:host"]

[[link]]
endpoints = ["s1:core", "s2:core"]
mtu = 1508

[[link]]
endpoints = ["s2:host", "h2"]

[[traffic]]
kind = "udp"
from = "h1"
to = "h2"
count = 1200
rate = 400
window = 32

[[traffic]]
kind = "udp"
from = "h2"
to = "h1"
count = 1100
rate = 400
window = 32
`

// switchSums is what the records of a switch say of its packets.
type switchSums struct {
	counted, missed uint64                             // by disketch
	unread          uint64                             // by the measurement points: missed in their records
	sampled         uint64                             // what the sample says that it is of
	entries         map[oblivious.Rank]oblivious.Entry // of all epochs
	behind          uint64                             // copies that came when their epoch's record was made, or were lost, by the records
	cells           [2]map[[2]int]lds.Cell             // on arrival, on departure, by row and column: sums of all intervals, but for Sum
	arrived, left   uint64                             // by the measurement points
	digests         int
}

// TestP4Records: of the packets that pass a Weir switch and a P4 switch both make the same of all four systems,
// and queries answer about the P4 switch as about the other. What a busy machine keeps the P4 switch's control plane from
// reading in time is missed, and the switches measure again, with epochs four times as long: it may then be held up for four times as long.
func TestP4Records(t *testing.T) {
	t.Run("crc", func(t *testing.T) { testP4Records(t, hash.CRC, "plan-shim.toml") })
	t.Run("xxhash", func(t *testing.T) { testP4Records(t, hash.XX, "plan-xxhash.toml") })
}

func testP4Records(t *testing.T, family hash.Family, plan string) {
	compiled, dir := compiledWeir(t, family), t.TempDir()
	plan, err := filepath.Abs("../../p4/testdata/setups/" + plan)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "measured.toml")
	for _, bits := range []int{31, 33, 35} {
		text := fmt.Sprintf(measuredLab, time.Duration(2<<bits).Round(time.Millisecond)+100*time.Millisecond,
			fmt.Sprintf(measuredSwitch, "s1", "", plan, "host", "core", bits, family),
			fmt.Sprintf(measuredSwitch, "s2", fmt.Sprintf("kind = \"bmv2\"\nprogram = %q", compiled), plan, "host", "core", bits, family))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		spool := filepath.Join(dir, fmt.Sprint("records", bits))
		late := measureBoth(t, file, spool)
		weir, p4 := bothMeasured(t, spool, family)
		if late == 0 && !weir.heldUp() && !p4.heldUp() {
			compareBoth(t, spool, weir, p4)
			return
		}
		t.Logf("epochs of 2^%d ns: the machine held a switch up: %v readings of s2 were late, %d and %d packets of s2 missed, %d and %d of s1", bits, late, p4.missed, p4.unread, weir.missed, weir.unread)
	}
	t.Fatal("the machine held a switch up, with epochs of 2^35 ns too, for 12 s or more: the records of both switches were not compared; run the test where less else runs")
}

const forth, back = 1200, 1100

// bothMeasured are the sums of the Weir switch and of the P4 switch. Each packet is in them, or missed: one that
// the P4 switch's control plane did not read in time, or that came before an epoch's schedule, too.
func bothMeasured(t *testing.T, spool string, family hash.Family) (weir, p4 *switchSums) {
	t.Helper()
	all := readMeasured(t, spool, family)
	weir, p4 = all["s1"], all["s2"]
	if weir == nil || p4 == nil {
		t.Fatalf("records are of %v", all)
	}
	for name, m := range all {
		t.Logf("%s: %d packets counted, %d sampled, %d entries and %d behind, %d arrived, %d left, %d digests", name, m.counted, m.sampled, len(m.entries), m.behind, m.arrived, m.left, m.digests)
		if m.counted+m.missed != forth+back || m.arrived+m.left+m.unread != forth+back {
			t.Errorf("%s: %d packets counted, %d missed, %d arrived, %d left, %d missed; %d passed", name, m.counted, m.missed, m.arrived, m.left, m.unread, forth+back)
		}
	}
	return weir, p4
}

// heldUp: records miss packets, or many of a sample's copies came behind its epoch: a busy machine has some come late.
func (m *switchSums) heldUp() bool {
	return m.missed != 0 || m.unread != 0 || m.behind > (forth+back)/10
}

// measureBoth runs the lab, and returns how many readings of the P4 switch came too late.
func measureBoth(t *testing.T, file, spool string) (late float64) {
	t.Helper()
	out, err := weirCommand("lab", "run", "--json", "--keep", spool, ownLab(t, file)).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var report struct {
		Switches []struct {
			Name   string
			Report struct {
				Metrics []struct {
					Stage, Name, Help string
					Value             float64
				}
			}
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Switches {
		for _, m := range s.Report.Metrics {
			switch {
			case m.Stage != "p4":
			case m.Name == "late_readings_total":
				late = m.Value
			case m.Value != 0:
				t.Logf("%s: %s is %g: %s", s.Name, m.Name, m.Value, m.Help)
			}
		}
	}
	return late
}

// compareBoth holds what the two switches measured together.
func compareBoth(t *testing.T, spool string, weir, p4 *switchSums) {
	t.Helper()
	for name, m := range map[string]*switchSums{"s1": weir, "s2": p4} {
		if m.missed != 0 || m.unread != 0 || m.sampled != forth+back {
			t.Errorf("%s: %d and %d packets missed, %d sampled; %d passed", name, m.missed, m.unread, m.sampled, forth+back)
		}
	}
	if weir.digests != back || p4.digests != forth {
		t.Errorf("%d digests at s1, %d at s2; want %d and %d", weir.digests, p4.digests, back, forth)
	}
	for rank, e := range p4.entries {
		if weir.entries[rank] != e {
			t.Errorf("rank %v is %+v at s2, %+v at s1", rank, e, weir.entries[rank])
		}
	}
	if len(weir.entries) != forth+back || uint64(len(p4.entries))+p4.behind != forth+back {
		t.Errorf("%d entries of samples at s1, %d at s2 and %d behind them, of %d packets", len(weir.entries), len(p4.entries), p4.behind, forth+back)
	}
	compareCells(t, "s1 to s2", weir.cells[1], p4.cells[0], forth)
	compareCells(t, "s2 to s1", p4.cells[1], weir.cells[0], back)
	for _, direction := range [][2]string{{"s1", "s2"}, {"s2", "s1"}} {
		out, err := weirCommand("query", "loss", "--json", "--records", spool, "--from", direction[0], "--to", direction[1]).Output()
		var loss query.Between
		if jsonErr := json.Unmarshal(out, &loss); err != nil || jsonErr != nil || !loss.HasLoss || loss.Lost != 0 {
			t.Errorf("from %s to %s: %v, %v: %s", direction[0], direction[1], err, jsonErr, out)
		}
	}
}

// compareCells holds the cells of both ends of a link, that so many packets passed. Row 0 samples a tenth of them, the last
// row all.
func compareCells(t *testing.T, direction string, sent, received map[[2]int]lds.Cell, packets uint64) {
	t.Helper()
	if !maps.Equal(sent, received) {
		t.Errorf("%s: cells are not the same", direction)
	}
	rows := map[int]uint64{}
	for at, cell := range received {
		rows[at[0]] += cell.Count
	}
	if rows[0] == 0 || rows[0] >= packets/2 || rows[3] != packets {
		t.Errorf("%s: rows have %v of %d packets", direction, rows, packets)
	}
}

// readMeasured adds up the records of a folder by switch, which hash by a family.
func readMeasured(t *testing.T, spool string, family hash.Family) map[string]*switchSums {
	t.Helper()
	all := map[string]*switchSums{}
	err := export.ReadSpool(spool, func(h record.Header, body []byte) error {
		m := all[h.Name]
		if m == nil {
			m = &switchSums{entries: map[oblivious.Rank]oblivious.Entry{}, cells: [2]map[[2]int]lds.Cell{{}, {}}}
			all[h.Name] = m
		}
		if h.Hash != family {
			return fmt.Errorf("%s hashes by %v", h.Name, h.Hash)
		}
		return m.add(&h, body)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (m *switchSums) add(h *record.Header, body []byte) error {
	switch h.Kind {
	case record.DiSketch:
		var r disketch.Record
		if err := r.UnmarshalBinary(body); err != nil {
			return err
		}
		m.counted, m.missed = m.counted+r.Seen, m.missed+h.Missed
	case record.Oblivious:
		var s oblivious.Sample
		if err := s.UnmarshalBinary(body); err != nil {
			return err
		}
		m.sampled, m.behind = m.sampled+s.Packets, m.behind+h.Missed
		for _, e := range s.Entries {
			m.entries[e.Rank] = e
		}
	case record.LDS:
		p, err := lds.Decode(body, h.Hash)
		if err != nil {
			return err
		}
		cells := m.cells[h.Instance&1]
		rows := p.Config().Rows
		if p.Packets() == 0 { // its cells are folded to one
			rows = 0
		}
		for row := range rows {
			for column := range p.Config().Columns {
				if add := p.Cell(row, column); add.Count != 0 {
					at := [2]int{row, column}
					cell := cells[at]
					cells[at] = lds.Cell{Count: cell.Count + add.Count, Digest: cell.Digest + add.Digest, Bytes: cell.Bytes + add.Bytes}
				}
			}
		}
		m.unread += h.Missed
		if h.Instance&1 == 0 {
			m.arrived += p.Packets()
		} else {
			m.left += p.Packets()
		}
	case record.PINT:
		var d pint.DigestBatch
		if err := pint.DecodeDigests(body, &d); err != nil {
			return err
		}
		m.digests += len(d.Records)
	}
	return nil
}
