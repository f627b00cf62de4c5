package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect/service"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/query"
)

// TestBurstyFrequencies: flows that send in bursts with pauses between them pass five switches, whose fragments have the default
// settings: they look at epochs in slices and choose n by what they see. PINT's digests give the paths. Each flow's
// frequency is within its bounds, and the mean error is no larger than that of a second sketch with n = 1 that counted the same packets. On a
// machine with much else to do, switches may have an epoch of the traffic in part only, and say so; then another run must do.
func TestBurstyFrequencies(t *testing.T) {
	const attempts = 3
	for attempt := range attempts {
		again := false
		t.Run(fmt.Sprintf("attempt %d", attempt), func(t *testing.T) { again = burstyFrequencies(t, attempt == attempts-1) })
		if !again {
			return
		}
	}
}

// burstyFrequencies is one run, the last one or not. It reports that another one must do.
func burstyFrequencies(t *testing.T, last bool) (again bool) {
	flows, bursts := 30, 300
	if testing.Short() {
		flows, bursts = 8, 80
	}
	records := filepath.Join(t.TempDir(), "records")
	// The second sketch aims at an error that it always keeps to: its n is 1.
	extra := fmt.Sprintf("[switch.config.telemetry]\nspool = %q\n[[switch.config.stages.disketch.fragment]]\n[[switch.config.stages.disketch.fragment]]\ntarget = 1e9\n", records)
	l := newPintLab(t, chainOfFive(`["parse", "l2", "disketch", "pint"]`, extra, false), flatAddresses)
	epoch := time.Duration(1 << 30)
	time.Sleep(epoch) // The switches have the epoch in which they started in part only, which answers leave out.

	began := disketch.Epochs(30).Epoch(uint64(new(clock.Clock).Now()))
	sent := l.bursts(flows, bursts)
	l.settle()
	ended := disketch.Epochs(30).Epoch(uint64(new(clock.Clock).Now()))
	keys := make([]query.Key, flows)
	for i := range keys {
		key, err := query.ParseKey(fmt.Sprintf("10.0.0.1:%d > 10.0.0.2:%d udp", udpFrom+1+i, udpTo))
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = key
	}
	folder := service.Folder{Records: records}
	total := 0.0
	for _, n := range sent {
		total += n
	}
	// late is how many of the epochs in which there was traffic are missing.
	late := func(all []query.Absent) (n int) {
		for _, a := range all {
			if a.Epoch >= began {
				n++
			}
		}
		return n
	}
	var e *query.Engine
	var chosen []query.SketchFrequency
	// The last epoch's records come when it is over, and sinks report paths as they decode them. What is missing for long does not come.
	enough := time.Now().Add(20 * epoch)
	l.patiently(func() bool {
		var err error
		if e, err = folder.Engine(); err == nil {
			chosen, err = e.SketchFrequencies(keys)
		}
		seen, absent := 0.0, 0
		for i := range chosen {
			if chosen[i].Path == nil {
				return false
			}
			seen += chosen[i].Value
			absent += late(chosen[i].Absent)
		}
		if err != nil || len(chosen) != flows || seen <= 0.95*total {
			return false
		}
		epochs := e.Store.Sketches.Epochs()
		return absent == 0 && epochs[len(epochs)-1] >= ended || time.Now().After(enough)
	})
	if len(chosen) != flows {
		t.Fatalf("no answers from %s", records)
	}
	epochs := e.Store.Sketches.Epochs()
	one := disketch.Query{Sketch: 1, From: epochs[0], To: epochs[len(epochs)-1] + 1}
	if _, ok := e.Store.Sketches.Looked(disketch.Query{From: one.From, To: one.To}); !ok {
		t.Error("no epoch was counted in slices: n was not chosen")
	}
	asker := e.Store.Sketches.Asker()
	chosenError, singleError, whole := 0.0, 0.0, true
	for i := range keys {
		c := &chosen[i]
		if !slices.Equal(c.Path, []string{"s1", "s2", "s3", "s4", "s5"}) {
			t.Fatalf("flow %s goes by %v", query.FormatKey(keys[i]), c.Path)
		}
		single := asker.Frequency(one, e.FlowID(one.Hash, keys[i]), disketch.PathFunc(func(uint64) []uint64 { return []uint64{1, 2, 3, 4, 5} }))
		if late(c.Absent) > 0 || len(single.Missing) > 0 {
			t.Logf("missing %+v and %+v", c.Absent, single.Missing)
			if !last {
				return true
			}
			whole = false
		}
		if !c.Holds(sent[i]) || sent[i] < single.Low || sent[i] > single.High {
			t.Errorf("flow %s sent %g datagrams: %+v; with n = 1 %g, %g to %g", query.FormatKey(keys[i]), sent[i], c.Bounded, single.Value, single.Low, single.High)
		}
		chosenError += math.Abs(c.Value-sent[i]) / float64(flows)
		singleError += math.Abs(single.Value-sent[i]) / float64(flows)
	}
	t.Logf("%d flows, %g datagrams, mean error %.3g, with n = 1 %.3g", flows, total, chosenError, singleError)
	// Cells are many, so that neither errs by collisions; a hundredth of a packet is what the decoder's weights leave. Where epochs are
	// missing, the two do not miss the same ones, and their bounds are what is held.
	if whole && chosenError > singleError+0.01 {
		t.Errorf("a mean error of %g packets, with n = 1 of %g", chosenError, singleError)
	}
	return false
}

// bursts sends datagrams of flows from h1 to h2, in bursts of 10 to 50 of a flow at random, and returns how many each flow sent. Each
// datagram waits for the arrival of the one before.
func (l *pintLab) bursts(flows, bursts int) (sent []float64) {
	l.t.Helper()
	r := rand.New(rand.NewPCG(1, 'u'))
	to := l.packetConn(1, "udp", l.bound(1, 0, udpTo))
	from := make([]net.PacketConn, flows)
	for i := range from {
		from[i] = l.packetConn(0, "udp", l.bound(0, 0, udpFrom+1+i))
	}
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.address[1][0], udpTo))
	sent = make([]float64, flows)
	for burst := range bursts {
		i := r.IntN(flows)
		if burst < flows {
			i = burst // each sends some
		}
		n := 10 + r.IntN(41)
		l.exchange(from[i], to, at, n, func(int) []byte { sent[i]++; return make([]byte, 100) })
		time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
	}
	return sent
}
