package replay_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/node/replay"
)

// usual is the metadata that answers what the built-in plan of PINT does.
const usual = intmd.NodeID | intmd.HopLatency | intmd.Utilisation

// TestCarriers: of the same packets INT-MD says what each met, exactly, for 16 bytes and 12 at each hop; PINT for 8, within its code's step
// and the spread of its samples; packets leave as they came, at the times at which they came.
func TestCarriers(t *testing.T) {
	const packets, hops = 12_000, 5
	capture, out := pcaptest.Flows(t, packets), filepath.Join(t.TempDir(), "out.pcap")
	c := captures(capture, out)
	c.Switch, c.Chain, c.LinkRate, c.INT = replay.DefaultSwitch("parse", "patch", "pint"), hops, 20_000_000, &intmd.Config{Instructions: usual, MaxHops: 255}
	r, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	in, errIn := pcaptest.Read(capture)
	left, errOut := pcaptest.Read(out)
	if errIn != nil || errOut != nil || !slices.Equal(in, left) {
		t.Fatalf("%d packets of %d leave as they came: %v %v", len(left), len(in), errIn, errOut)
	}
	if len(r.Carriers) != 1 {
		t.Fatalf("carriers at %d ends", len(r.Carriers))
	}
	at := r.Carriers[0]
	if at.Switch != hops || at.Packets != packets || at.Crossings != packets*(hops-1) || at.HopBytes != 12 || len(at.Carriers) != 2 {
		t.Fatalf("%+v", at)
	}
	// On the links behind 1 to 4 hops: the mean of 16+12 to 16+48.
	for i, want := range []replay.Carrier{{Name: "pint", PerPacket: 8, Flows: 60}, {Name: "int-md", PerPacket: 46, Flows: 60}} {
		got := at.Carriers[i]
		if got.Name != want.Name || got.PerPacket != want.PerPacket || got.Packets != packets || got.Over != 0 || got.Flows != want.Flows || got.Right != want.Flows || got.Wrong != 0 ||
			got.AddedBytes != uint64(want.PerPacket)*at.Crossings || got.Share != float64(got.AddedBytes)/float64(got.AddedBytes+at.Bytes) {
			t.Errorf("%+v", got)
		}
	}
	if len(at.Latency) != 2*hops || len(at.Use) != 2 {
		t.Fatalf("%d latencies, %d uses", len(at.Latency), len(at.Use))
	}
	for _, q := range slices.Concat(at.Latency, at.Use) {
		if q.INT == nil || q.PINT == nil || q.Truth == 0 {
			t.Fatalf("%+v", q)
		}
		// A fifth of 12,000 packets at ranks 0.5 and 0.99: some 2,000 samples of latency, 750 of use.
		if q.INT.Error != 0 || math.Abs(q.PINT.Error) > 0.15 {
			t.Errorf("%+v: int %+v, pint %+v", q, *q.INT, *q.PINT)
		}
	}
	// 60 to 1,459 bytes, 0.4 ms apart, at 20 Mbit/s: the first link queues, the others cannot.
	if first, second := at.Latency[1], at.Latency[3]; first.Truth <= second.Truth || second.Truth > 1459*8*50 {
		t.Errorf("the 99th percentile at the first switch is %.0f ns, at the second %.0f", first.Truth, second.Truth)
	}
	named := uint64(0)
	for _, m := range at.MostUsed {
		if m.INT != m.Truth {
			t.Errorf("%+v", m)
		}
		named += m.Truth
	}
	if named != packets {
		t.Errorf("the most used link of %d packets is named", named)
	}
}

// TestCarriersMTU: what an MTU leaves of both: each packet is counted once, with the whole stack or the reason.
func TestCarriersMTU(t *testing.T) {
	const hops, mtu = 4, 1000
	capture := pcaptest.Flows(t, 4000)
	records, err := pcaptest.Read(capture)
	if err != nil {
		t.Fatal(err)
	}
	// Of the IP packet, INT's header and three hops' metadata are on links; ports have room for a tag beyond the MTU, which PINT may use.
	var overINT, overPINT uint64
	for _, record := range records {
		length := len(record.Data)
		if length-14+intmd.FixedLen+3*usual.Words()*4 > mtu {
			overINT++
		}
		if length+8 > mtu+18 {
			overPINT++
		}
	}
	c := captures(capture, "")
	c.Switch, c.Chain, c.LinkRate, c.MTU, c.INT = replay.DefaultSwitch("parse", "patch", "pint"), hops, 1e9, mtu, &intmd.Config{Instructions: usual, MaxHops: 255}
	r, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	at := r.Carriers[0]
	pint, int := at.Carriers[0], at.Carriers[1]
	if pint.Over != overPINT || pint.Packets != at.Packets-overPINT || int.Over != overINT || int.Packets != at.Packets-overINT || overINT <= overPINT || overPINT == 0 {
		t.Errorf("pint %+v, int %+v, want %d and %d over the MTU", pint, int, overPINT, overINT)
	}
	c = captures(capture, "")
	c.Switch, c.Chain, c.LinkRate, c.INT = replay.DefaultSwitch("parse", "patch"), hops, 1e9, &intmd.Config{Instructions: intmd.NodeID, MaxHops: 3}
	if r, err = run(t, c); err != nil {
		t.Fatal(err)
	}
	if at = r.Carriers[0]; len(at.Carriers) != 1 || at.Carriers[0].Packets != 0 || at.Carriers[0].Wrong != 0 || at.Latency[0].INT != nil || at.Latency[0].PINT != nil {
		t.Errorf("4 hops where 3 may write: %+v", at)
	}
}

// TestCarriersBothWays: each end has the packets that left there, of what cannot carry a stack, too.
func TestCarriersBothWays(t *testing.T) {
	c := captures("../../docs/example.pcap", "")
	c.In["p1"] = pcaptest.Write(t, "back.pcap", pcapfile.Format{LinkField: uint32(pcapfile.Ethernet)}, pcaptest.Frame(2, 1, 0, 60))
	c.Switch, c.Chain, c.LinkRate, c.INT = replay.DefaultSwitch("parse", "l2", "pint"), 3, 1e10, &intmd.Config{Instructions: usual, MaxHops: 255}
	r, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Carriers) != 2 || r.Carriers[0].Switch != 1 || r.Carriers[1].Switch != 3 {
		t.Fatalf("%d ends", len(r.Carriers))
	}
	if sum := r.Carriers[0].Packets + r.Carriers[1].Packets; sum != r.Forwarded || sum == 0 {
		t.Errorf("%d packets left at the ends, %d were forwarded", sum, r.Forwarded)
	}
}

// TestCarriersRealTraffic: in real traffic of 50,000 flows, cut to 128 bytes, each whole stack says what its packet met.
func TestCarriersRealTraffic(t *testing.T) {
	file := filepath.Join(netsim.DataDir(), "traces", "realmix-snap128.pcap.gz")
	if _, err := os.Stat(file); err != nil {
		t.Skip("no reference data:", err)
	}
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	c := captures(file, "")
	c.Switch, c.Chain, c.LinkRate, c.INT = replay.DefaultSwitch("parse", "patch", "pint"), 5, 1e9, &intmd.Config{Instructions: usual, MaxHops: 255}
	r, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	at := r.Carriers[0]
	for _, row := range at.Carriers {
		t.Logf("%+v", row)
		if row.Wrong != 0 || row.Right == 0 || row.Packets < at.Packets*9/10 {
			t.Errorf("of %d packets: %+v", at.Packets, row)
		}
	}
}
