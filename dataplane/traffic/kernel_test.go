package traffic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/traffic/bpf"
	"github.com/weirswitch/weir/dataplane/xsk"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// cable makes a veth pair between two namespaces.
func cable(t testing.TB, queues int) (a, b Port) {
	t.Helper()
	netnstest.Require(t)
	nsA, nsB := netnstest.New(t, "wt"), netnstest.New(t, "wt")
	must(t, nsA.DisableIPv6())
	must(t, nsB.DisableIPv6())
	must(t, netns.AddVeth(netns.End{Namespace: nsA, Name: "a"}, netns.End{Namespace: nsB, Name: "b"}, netns.Veth{Queues: queues}))
	must(t, nsA.SetUp("a"))
	must(t, nsB.SetUp("b"))
	return Port{nsA, "a", AnyCore}, Port{nsB, "b", AnyCore}
}

// The program that fills live frames in and Writer are twins, byte by byte.
func TestLiveProgramMatchesGo(t *testing.T) {
	a, _ := cable(t, 1)
	for name, w := range variants() {
		source, err := NewLiveSource(a, w)
		if !w.plain() {
			if err == nil {
				t.Errorf("%s: live frames were to be of another kind", name)
			}
			continue
		}
		must(t, err)
		fw, err := NewWriter(w)
		must(t, err)
		for i := range uint64(300) {
			first := mix64(i) & seqMask
			must(t, source.objects.State.Set(bpf.LiveState{Seq: first}))
			out := make([]byte, w.MaxSize())
			options := &ebpf.RunOptions{Data: source.frame, DataOut: out}
			if _, err := source.objects.Live.Run(options); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var state bpf.LiveState
			must(t, source.objects.State.Get(&state))
			want := make([]byte, w.MaxSize())
			want = want[:fw.Write(want, first, state.LastNs)]
			if !bytes.Equal(options.DataOut, want) {
				t.Fatalf("%s: packet %d is\n%x, want\n%x", name, first, options.DataOut, want)
			}
		}
		must(t, source.Close())
	}
}

// The sink program counts as the tracker does, whose own twin is a map.
func TestSinkProgramMatchesTracker(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &before))
	for core := range 1024 {
		if before.IsSet(core) {
			one.Set(core) // the program's order of all flows is kept for each core
			break
		}
	}
	must(t, unix.SchedSetaffinity(0, &one))
	defer func() { must(t, unix.SchedSetaffinity(0, &before)) }()

	options := SinkOptions{Duplicates: true, FlowOrder: true, Bins: true}
	for _, name := range []string{"default", "reversed", "ipv6", "imix", "tcp", "vlan mpls ipv6", "qinq vxlan ipv6 tcp"} {
		w := variants()[name]
		_, b := cable(t, 1)
		sink, err := NewXDPSink(b, w, options, false)
		must(t, err)
		fw, err := NewWriter(w)
		must(t, err)
		reader, err := newReader(w)
		must(t, err)
		tracker := newTracker(w.Flows, options)
		clock, err := newClock(w.Clock)
		must(t, err)
		random := rand.New(rand.NewPCG(9, 9))
		frame := make([]byte, w.MaxSize())
		for i, seq := range disturbed(random, window*3-1000, 3000) {
			sent := clock.now() - random.Uint64N(1<<random.IntN(30))
			n := fw.Write(frame, seq, sent)
			if i%10 == 0 {
				frame[n-1-random.IntN(n)] ^= 0xff // now foreign, or a packet with another mark
				if n >= 60 && frame[0]&1 != 0 {
					frame[0] ^= 0xff
				}
			}
			if m, ok := reader.Read(frame[:n]); ok {
				tracker.add(m, n, clock.now())
			} else {
				tracker.report.Foreign++
			}
			_, err := sink.objects.Sink.Run(&ebpf.RunOptions{Data: frame[:n]})
			must(t, err)
			clear(frame)
		}
		got, err := sink.Report()
		must(t, err)
		want := tracker.snapshot()
		for _, c := range []struct {
			what      string
			got, want uint64
		}{
			{"packets", got.Packets, want.Packets}, {"bytes", got.Bytes, want.Bytes},
			{"foreign", got.Foreign, want.Foreign}, {"duplicates", got.Duplicates, want.Duplicates},
			{"stale", got.Stale, want.Stale}, {"reordered", got.Reordered, want.Reordered},
			{"late", got.Late, want.Late}, {"next sequence number", got.NextSeq, want.NextSeq},
			{"latencies", uint64(got.Latency.TotalCount()), uint64(want.Latency.TotalCount())},
		} {
			if c.got != c.want {
				t.Errorf("%s: %s: %d, want %d", name, c.what, c.got, c.want)
			}
		}
		if !slices.Equal(got.SentPerBin, want.SentPerBin) {
			t.Errorf("%s: bins differ", name)
		}
		must(t, sink.Close())
	}
}

// The program's latency buckets agree with the ones Go reads, checked with latencies of known
// size: a send time in the past, so long ago that the delay of the test itself is below
// a bucket's width.
func TestSinkProgramLatency(t *testing.T) {
	_, b := cable(t, 1)
	w := DefaultWorkload()
	fw, err := NewWriter(w)
	must(t, err)
	clock, err := newClock(w.Clock)
	must(t, err)
	for _, past := range []uint64{5e9, 7_777_777_777, 16e9} {
		sink, err := NewXDPSink(b, w, DefaultSinkOptions(), false)
		must(t, err)
		frame := make([]byte, 60)
		before := clock.now()
		fw.Write(frame, 0, before-past)
		_, err = sink.objects.Sink.Run(&ebpf.RunOptions{Data: frame})
		must(t, err)
		took := clock.now() - before
		r, err := sink.Report()
		must(t, err)
		low, high := float64(past)*(1-1.0/128-0.001), float64(past+took)*(1+1.0/128+0.001)
		if got := float64(r.Latency.Max()); got < low || got > high {
			t.Errorf("latency %v, want %v to %v", got, low, high)
		}
		must(t, sink.Close())
	}
}

func sources(t *testing.T, a Port, w Workload) map[string]func() Source {
	return map[string]func() Source{
		"live":   func() Source { s, err := NewLiveSource(a, w); must(t, err); return s },
		"packet": func() Source { s, err := NewPacketSource(a, w); must(t, err); return s },
		"xsk":    func() Source { s, err := NewXSKSource(a, 0, w, xsk.Copy); must(t, err); return s },
	}
}

func sinks(t *testing.T, b Port, w Workload, o SinkOptions) map[string]func() Sink {
	return map[string]func() Sink{
		"xdp":    func() Sink { s, err := NewXDPSink(b, w, o, false); must(t, err); return s },
		"tc":     func() Sink { s, err := NewTCSink(b, w, o); must(t, err); return s },
		"packet": func() Sink { s, err := NewPacketSink(b, w, o); must(t, err); return s },
	}
}

// settle reads the sink until all n packets are there or it has been idle for long.
func settle(t *testing.T, s Sink, n uint64) *Report {
	t.Helper()
	for last, idle := uint64(0), 0; ; {
		r, err := s.Report()
		must(t, err)
		if idle++; r.Packets != last {
			last, idle = r.Packets, 0
		}
		if r.Packets+r.Overflow >= n || idle > 50 {
			return r
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Each packet is accounted for: it arrived once, or the device refused it, or the sink's socket
// was full. How many of each there are depends on the machine.
func TestEverySourceToEverySink(t *testing.T) {
	for name, w := range map[string]Workload{
		"udp4": with(func(w *Workload) { w.Sizes, w.Order, w.Exponent = IMIX(), Zipf, 1 }),
		"udp6": with(func(w *Workload) { ipv6(w); w.Reversed = true }),
		"tai":  with(func(w *Workload) { w.Clock = TAI }),
	} {
		a, b := cable(t, 1)
		must(t, b.Namespace.SetOffload("b", netns.GRO, true)) // live frames need it where no XDP program is
		for from, newSource := range sources(t, a, w) {
			for to, newSink := range sinks(t, b, w, SinkOptions{Duplicates: true, FlowOrder: true, Bins: true}) {
				if testing.Short() && (name != "udp4" && (from != "live" || to != "xdp") || name == "udp4" && from != "live" && to != "xdp") {
					continue // each source, and each sink, once
				}
				t.Run(fmt.Sprintf("%s/%s-%s", name, from, to), func(t *testing.T) {
					sink, source := newSink(), newSource()
					first, err := source.Run(context.Background(), Load{Rate: 30_000, Count: 3000})
					must(t, err)
					second, err := source.Run(context.Background(), Load{Rate: 30_000, Duration: 100 * time.Millisecond, FirstSeq: first.NextSeq})
					must(t, err)
					checkRuns(t, settle(t, sink, second.NextSeq), w, first, second)
					must(t, source.Close())
					must(t, sink.Close())
				})
			}
		}
	}
}

// TestEncapsulations: each template reaches each sink with the sources that write it, and a library reads what it is.
func TestEncapsulations(t *testing.T) {
	for _, name := range []string{"tcp", "vlan", "qinq tcp", "mpls", "vlan mpls ipv6", "vxlan", "qinq vxlan ipv6 tcp"} {
		w := variants()[name]
		w.Sizes = Fixed(w.MinSize() + 20)
		a, b := cable(t, 1)
		for to, newSink := range sinks(t, b, w, DefaultSinkOptions()) {
			for from, newSource := range sources(t, a, w) {
				if from == "live" || testing.Short() && (from == "packet") != (to == "packet") {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s-%s", name, from, to), func(t *testing.T) {
					sink, source := newSink(), newSource()
					sent, err := source.Run(context.Background(), Load{Rate: 50_000, Count: 500})
					must(t, err)
					r := settle(t, sink, sent.Packets)
					if sent.Packets != 500 || r.Unique()+sent.Refused+r.Overflow != 500 || r.Unique() == 0 || r.Duplicates+r.Reordered != 0 {
						r.Latency = nil
						t.Errorf("sent %+v, received %+v", sent, r)
					}
					must(t, source.Close())
					must(t, sink.Close())
				})
			}
		}
	}
}

// TestParallel: several sources at a time send each sequence number once and keep the order of flows, also where they are not equally
// fast and where the count is no multiple of their number.
func TestParallel(t *testing.T) {
	const cores = 3
	a, b := cable(t, cores)
	for _, kind := range []string{"live", "xsk", "packet"} {
		for what, load := range map[string]Load{
			"count":    {Rate: 30_000, Count: 2000},
			"duration": {Rate: 30_000, Duration: 50 * time.Millisecond},
			"flood":    {Duration: 20 * time.Millisecond},
		} {
			t.Run(kind+" "+what, func(t *testing.T) {
				w := with(func(w *Workload) { w.Flows, w.Order, w.Exponent = 1000, Zipf, 1 })
				sink, err := NewXDPSink(b, w, DefaultSinkOptions(), false)
				must(t, err)
				defer sink.Close()
				var all []Source
				for i := range cores {
					w.Part, w.Parts = i, cores
					s, err := NewSource(kind, a, i, w)
					must(t, err)
					all = append(all, s)
				}
				p := NewParallel(all)
				first, err := p.Run(context.Background(), load)
				must(t, err)
				second, err := p.Run(context.Background(), Load{Rate: 50_000, Count: 7, FirstSeq: first.NextSeq})
				must(t, err)
				must(t, p.Close())
				if load.Count > 0 && first.Packets != load.Count || second.Packets != 7 || second.NextSeq != first.NextSeq+7 || first.NextSeq != first.Packets {
					t.Errorf("sent %+v, then %+v", first, second)
				}
				refused := first.Refused + second.Refused
				r := settle(t, sink, second.NextSeq-refused)
				if lost := r.Lost(second.NextSeq); r.Duplicates+r.Stale != 0 || r.Unique() == 0 || lost > refused && what != "flood" {
					t.Errorf("%d refused: %d lost, %d duplicates", refused, lost, r.Duplicates)
				}
				if kind == "xsk" && r.Reordered > 0 { // a queue each
					t.Errorf("%d packets out of their flows' order", r.Reordered)
				}
			})
		}
	}
}

func checkRuns(t *testing.T, r *Report, w Workload, first, second Sent) {
	t.Helper()
	if first.Packets != 3000 || first.NextSeq != 3000 {
		t.Errorf("sent %+v", first)
	}
	if most := uint64(3000 + 1); second.Packets == 0 || second.Packets > most || second.NextSeq != 3000+second.Packets {
		t.Errorf("sent %+v, at most %d are due", second, most)
	}
	sent, refused := first.Packets+second.Packets, first.Refused+second.Refused
	if lost := r.Lost(sent); lost != refused+r.Overflow {
		t.Errorf("%d sent, %d lost, but %d refused and %d overflowed", sent, lost, refused, r.Overflow)
	}
	if r.Unique() == 0 || r.Duplicates != 0 || r.Reordered != 0 || r.Late != 0 || r.Stale != 0 || r.Ahead != 0 {
		r.Latency = nil
		t.Errorf("%+v", r)
	}
	if refused+r.Overflow == 0 && (r.Bytes != first.Bytes+second.Bytes || r.NextSeq != sent) {
		t.Errorf("%d bytes sent, %d received, next number %d", first.Bytes+second.Bytes, r.Bytes, r.NextSeq)
	}
	if uint64(r.Latency.TotalCount()) != r.Unique() {
		t.Errorf("%d latencies of %d packets", r.Latency.TotalCount(), r.Unique())
	}
	// Pacing is in the received send times: no bin may hold more than rate and catch-up allow.
	width := BinWidth.Seconds()
	for i, n := range r.SentPerBin {
		if most := uint64(30_000*width) + 2*DefaultCatchUp + 2; n > most {
			t.Errorf("bin %d holds %d packets, most is %d", i, n, most)
		}
	}
}

// Within the bins of a paced run the usual count is the rate times the width, so packets are
// spread and do not come in lumps.
func TestLivePacingIsSmooth(t *testing.T) {
	a, b := cable(t, 1)
	w := DefaultWorkload()
	for _, rate := range []float64{20_000, 200_000} {
		sink, err := NewXDPSink(b, w, SinkOptions{Duplicates: true, Bins: true}, false)
		must(t, err)
		source, err := NewLiveSource(a, w)
		must(t, err)
		sent, err := source.Run(context.Background(), Load{Rate: rate, Duration: 300 * time.Millisecond})
		must(t, err)
		r := settle(t, sink, sent.Packets)
		full := r.SentPerBin[1 : len(r.SentPerBin)-1] // the outermost are cut by the run's ends
		expected := rate * BinWidth.Seconds()
		for _, n := range full {
			if float64(n) > expected+DefaultCatchUp+1 {
				t.Errorf("rate %v: a bin holds %d, expected %v", rate, n, expected)
			}
		}
		sorted := slices.Sorted(slices.Values(full))
		// A source that says it was held up may send less, never more.
		median := float64(sorted[len(sorted)/2])
		if median > expected*1.03+1 || median < expected*0.97-1 && !sent.SourceLimited {
			t.Errorf("rate %v: the median bin holds %v, expected %v", rate, median, expected)
		}
		must(t, source.Close())
		must(t, sink.Close())
	}
}

func TestSourcesStopWithTheirContext(t *testing.T) {
	a, b := cable(t, 1)
	w := DefaultWorkload()
	sink, err := NewXDPSink(b, w, DefaultSinkOptions(), false)
	must(t, err)
	defer sink.Close()
	for name, newSource := range sources(t, a, w) {
		for _, rate := range []float64{0, 1, 10_000} {
			ctx, cancel := context.WithCancel(context.Background())
			source := newSource()
			before, err := sink.Report()
			must(t, err)
			go func() { // end the run, which has no end, at its first arrival
				defer cancel()
				for {
					r, err := sink.Report()
					if err != nil || r.Packets != before.Packets {
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
			sent, err := source.Run(ctx, Load{Rate: rate})
			if err != nil || sent.Packets == 0 {
				t.Errorf("%s at rate %v: %+v, %v", name, rate, sent, err)
			}
			must(t, source.Close())
		}
	}
}

func TestLiveSourceRefusesLongFrames(t *testing.T) {
	a, _ := cable(t, 1)
	if _, err := NewLiveSource(a, with(func(w *Workload) { w.Sizes = Fixed(9000) })); err == nil {
		t.Error("a frame longer than a page was taken")
	}
}

// Traffic that is not the sink's goes on to the stack.
func TestXDPSinkPassesOthers(t *testing.T) {
	a, b := cable(t, 1)
	w := DefaultWorkload()
	sink, err := NewXDPSink(b, w, DefaultSinkOptions(), false)
	must(t, err)
	defer sink.Close()
	other := with(func(w *Workload) { w.Run = 2 })
	behind, err := NewPacketSink(b, other, DefaultSinkOptions())
	must(t, err)
	defer behind.Close()
	source, err := NewPacketSource(a, other)
	must(t, err)
	defer source.Close()
	sent, err := source.Run(context.Background(), Load{Rate: 10_000, Count: 200})
	must(t, err)
	r := settle(t, behind, sent.Packets)
	x, err := sink.Report()
	must(t, err)
	if x.Packets != 0 || x.Foreign != 200-sent.Refused || r.Unique() != x.Foreign-r.Overflow {
		t.Errorf("sink: %d packets, %d foreign; behind it: %d", x.Packets, x.Foreign, r.Unique())
	}
}

func TestSetThreaded(t *testing.T) {
	_, b := cable(t, 2)
	var allowed unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &allowed))
	for b.Core = 0; !allowed.IsSet(b.Core); b.Core++ {
	}
	if err := SetThreaded(b, true); err == nil {
		t.Error("an interface without receive contexts was taken")
	}
	sink, err := NewXDPSink(b, DefaultWorkload(), DefaultSinkOptions(), false)
	must(t, err)
	defer sink.Close()
	if err = SetThreaded(b, true); errors.Is(err, ErrHiddenThreads) {
		must(t, b.Namespace.Do(func() error {
			device, err := nic.OpenSysfs("b")
			if err != nil {
				return err
			}
			defer device.Close()
			if on, err := device.Read("threaded"); err != nil || on != "0" {
				t.Errorf("the work of threads that cannot be pinned is left to them: %q, %v", on, err)
			}
			return nil
		}))
		return
	}
	must(t, err)
	link, err := b.Namespace.Link("b")
	must(t, err)
	var threads []int
	must(t, b.Namespace.Do(func() (err error) {
		threads, err = napiThreads(link.Attrs().Index)
		return err
	}))
	if len(threads) != 2 {
		t.Errorf("%d receive threads for two queues", len(threads))
	}
	for _, id := range threads {
		var set unix.CPUSet
		must(t, unix.SchedGetaffinity(id, &set))
		if set.Count() != 1 || !set.IsSet(b.Core) {
			t.Errorf("thread %d is not pinned to core %d", id, b.Core)
		}
	}
	must(t, SetThreaded(b, false))
}
