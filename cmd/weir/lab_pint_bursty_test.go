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

// What the labs of TestBurstyFrequencies have. Cells are so few that flows share them: estimates err. Errors of one sketch are the luck of its hash functions,
// so there are several with the default settings, and as many with n = 1 that count the same packets.
const (
	burstyFlows    = 60
	burstySketches = 12  // of either
	burstyMemory   = 128 // bytes: 32 cells, the fewest of which n is chosen
	burstyEpochs   = 4   // to compare in, at least
)

// luck is the chance by which a comparison of this test may fail although nothing is wrong.
const luck = 1e-6

// TestBurstyFrequencies: flows pass five switches, whose fragments have the default settings but for their memory: they look at epochs in slices and
// choose n by what they see. PINT's digests give the paths. n is what the model says of the epochs that were counted in slices: most
// often 1 of flows that send in bursts with pauses between them, and more of flows that send evenly, which
// the test wants to see. In both labs each
// frequency is within its bounds, and the errors are no larger than those of sketches with n = 1 that counted the same packets: if they are alike, each order of the
// errors is as likely as any other, and that all of the default are above all others has a chance of 1 in 2.7 million. On a
// machine with much else to do, switches may have epochs of the traffic in part only, and say so, or flows that should send evenly do not; with few whole epochs
// another run must do.
func TestBurstyFrequencies(t *testing.T) {
	labs := []burstyLab{{name: "bursts", send: (*pintLab).burst}, {name: "even", send: (*pintLab).round, splits: true}}
	if testing.Short() {
		labs = labs[:1]
	}
	for _, b := range labs {
		t.Run(b.name, func(t *testing.T) {
			const attempts = 3
			for attempt := range attempts {
				again := false
				t.Run(fmt.Sprintf("attempt %d", attempt), func(t *testing.T) { again = b.run(t, attempt == attempts-1) })
				if !again {
					return
				}
			}
		})
	}
}

// burstyLab is one of the test's labs.
type burstyLab struct {
	name string
	// send sends some datagrams.
	send func(l *pintLab, flows *burstySenders)
	// splits says that more than one subepoch pays.
	splits bool
}

// run is one run, the last one or not. It reports that another one must do.
func (b *burstyLab) run(t *testing.T, last bool) (again bool) {
	records := filepath.Join(t.TempDir(), "records")
	extra := fmt.Sprintf("[switch.config.telemetry]\nspool = %q\n", records)
	for range burstySketches {
		// Every second sketch aims at an error that it always keeps to: its n is 1.
		extra += fmt.Sprintf("[[switch.config.stages.disketch.fragment]]\nmemory = %d\n", burstyMemory)
		extra += fmt.Sprintf("[[switch.config.stages.disketch.fragment]]\nmemory = %d\ntarget = 1e9\n", burstyMemory)
	}
	// The last one has cells in plenty, so that it says what each flow sent in each epoch.
	extra += "[[switch.config.stages.disketch.fragment]]\ntarget = 1e9\n"
	l := newPintLab(t, chainOfFive(`["parse", "l2", "disketch", "pint"]`, extra, false), flatAddresses)
	now := func() uint64 { return burstyHalf() / 2 }
	// Traffic that begins within an epoch that is counted in slices does not look even. These are the first, the second, the fifth, and each 16th.
	for up := now(); now() < up+6 || now()%16 == 0; {
		time.Sleep(100 * time.Millisecond)
	}
	flows := l.burstySenders()
	began := now()
	// Two looks choose n, which follows within the next epochs.
	until := (began+16)&^15 + 26
	for now() < until {
		b.send(l, flows)
	}
	l.settle()
	ended := now()
	keys := make([]query.Key, burstyFlows)
	for i := range keys {
		key, err := query.ParseKey(fmt.Sprintf("10.0.0.1:%d > 10.0.0.2:%d udp", udpFrom+1+i, udpTo))
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = key
	}
	folder := service.Folder{Records: records}
	var e *query.Engine
	var chosen []query.SketchFrequency
	var a *burstyAnswers
	// The last epoch's records come when it is over, and sinks report paths as they decode them. What is missing for long does not come.
	enough := now() + 20
	l.patiently(func() bool {
		var err error
		if e, err = folder.Engine(); err == nil {
			chosen, err = e.SketchFrequencies(keys)
		}
		if err != nil || len(chosen) != burstyFlows || slices.ContainsFunc(chosen, func(f query.SketchFrequency) bool { return f.Path == nil }) {
			return false
		}
		epochs := e.Store.Sketches.Epochs()
		if epochs[len(epochs)-1] <= ended {
			return false
		}
		a = askAll(e, keys, began, ended)
		return len(a.missing) == 0 || now() > enough
	})
	if len(chosen) != burstyFlows {
		t.Fatalf("no answers from %s", records)
	}
	for i := range keys {
		if !slices.Equal(chosen[i].Path, []string{"s1", "s2", "s3", "s4", "s5"}) {
			t.Fatalf("flow %s goes by %v", query.FormatKey(keys[i]), chosen[i].Path)
		}
	}
	if a == nil {
		t.Logf("no records after epoch %d", ended)
		return !last
	}
	divided := b.divided(t, &e.Store.Sketches, began)
	t.Logf("%d epochs of traffic, %d of them whole in all sketches", ended+1-began, ended+1-began-uint64(len(a.missing)))
	looked := func(epoch uint64) bool { return flows.even(epoch) && !a.missing[epoch] }
	if b.splits && !divided && looked(until-26) && looked(until-10) {
		t.Errorf("epochs %d and %d were counted in slices, all flows sent evenly in them, and no epoch had more than one subepoch", until-26, until-10)
	}
	if ended+1-began < uint64(len(a.missing))+burstyEpochs || b.splits && !divided && !last {
		return !last
	}
	if len(a.missing) == 0 {
		for i, truth := range a.truth() {
			if math.Abs(truth.Value-flows.sent[i]) > 0.01*flows.sent[i]+1 {
				t.Errorf("flow %d sent %g datagrams, and cells in plenty say %g; by epoch, all switches and each one: %v", i, flows.sent[i], truth.Value, apart(e, keys[i], began, ended))
			}
		}
	}
	b.compare(t, a)
	return false
}

// burstyAnswers are those of each sketch about each flow, over the epochs of the traffic that are whole in all sketches.
type burstyAnswers struct {
	of      [2*burstySketches + 1][]disketch.Answer
	missing map[uint64]bool // epochs that are not
}

// truth is what the last sketch says.
func (a *burstyAnswers) truth() []disketch.Answer { return a.of[2*burstySketches] }

// askAll asks all sketches. On a machine with much else to do a switch may lack packets of an epoch, and says so.
func askAll(e *query.Engine, keys []query.Key, began, ended uint64) *burstyAnswers {
	a, asker := &burstyAnswers{missing: map[uint64]bool{}}, e.Store.Sketches.Asker()
	path := disketch.PathFunc(func(uint64) []uint64 { return []uint64{1, 2, 3, 4, 5} })
	var sums [len(a.of)][burstyFlows]disketch.Sum
	for epoch := began; epoch <= ended; epoch++ {
		next := sums
		whole := true
		for sketch := range next {
			for i, key := range keys {
				q := disketch.Query{Sketch: uint16(sketch), From: epoch, To: epoch + 1}
				asker.Add(&next[sketch][i], q, e.FlowID(q.Hash, key), epoch, path)
				whole = whole && len(next[sketch][i].Answer(q).Missing) == 0
			}
		}
		if whole {
			sums = next
		} else {
			a.missing[epoch] = true
		}
	}
	for sketch := range sums {
		for i := range sums[sketch] {
			a.of[sketch] = append(a.of[sketch], sums[sketch][i].Answer(disketch.Query{}))
		}
	}
	return a
}

// apart is what the last sketch says of a flow in the epochs in which its fragments differ by more than a packet: of all five, and of each one alone.
func apart(e *query.Engine, key query.Key, began, ended uint64) (lines []string) {
	for epoch := began; epoch <= ended; epoch++ {
		var values []float64
		for _, switches := range [][]uint64{{1, 2, 3, 4, 5}, {1}, {2}, {3}, {4}, {5}} {
			q := disketch.Query{Sketch: 2 * burstySketches, From: epoch, To: epoch + 1}
			values = append(values, e.Store.Sketches.Frequency(q, e.FlowID(q.Hash, key), disketch.PathFunc(func(uint64) []uint64 { return switches })).Value)
		}
		if slices.Max(values)-slices.Min(values) > 1 {
			lines = append(lines, fmt.Sprintf("%d: %.4g", epoch, values))
		}
	}
	return lines
}

// compare wants each flow's datagrams within the bounds, and errors of the default sketches that are no larger than those with n = 1. Bounds are at least
// 4.5 standard deviations wide, by Chebyshev's inequality, for a sum over epochs of medians of rows: the farthest of 720 truths is
// at less than half of the way.
func (b *burstyLab) compare(t *testing.T, a *burstyAnswers) {
	var errors [2][]float64 // of the default, and with n = 1; means over the flows
	farthest := 0.0
	for sketch, answers := range a.of[:2*burstySketches] {
		sum := 0.0
		for i, answer := range answers {
			sent := a.truth()[i].Value
			off := answer.Value - sent
			sum += math.Abs(off)
			if off > 0 {
				farthest = max(farthest, off/(answer.Value-answer.Low))
			} else if off < 0 {
				farthest = max(farthest, -off/(answer.High-answer.Value))
			}
			if sent < answer.Low || sent > answer.High {
				t.Errorf("sketch %d, flow %d sent %g datagrams: %g, %g to %g", sketch, i, sent, answer.Value, answer.Low, answer.High)
			}
		}
		errors[sketch%2] = append(errors[sketch%2], sum/float64(len(answers)))
	}
	mean := [2]float64{}
	for i := range errors {
		slices.Sort(errors[i])
		for _, x := range errors[i] {
			mean[i] += x / burstySketches
		}
	}
	chance := chanceOfRanks(errors[0], errors[1])
	t.Logf("mean error %.3g datagrams, with n = 1 %.3g; by sketch %.3g and %.3g; truth at most at %.2f of the way to a bound", mean[0], mean[1], errors[0], errors[1], farthest)
	if mean[1] == 0 {
		t.Error("no sketch errs: there is nothing to compare")
	}
	if chance < luck {
		t.Errorf("a mean error of %g datagrams, with n = 1 of %g: such ranks have the chance %g", mean[0], mean[1], chance)
	}
}

// divided says whether some epoch of a default sketch had more than one subepoch. It replays what each switch chose from the epochs that it
// counted in slices: where more pays, n must follow within the next epochs, and where it does not, n must be 1.
func (b *burstyLab) divided(t *testing.T, records *disketch.Records, began uint64) bool {
	epochs, most := records.Epochs(), 1
	var ratios [disketch.SliceLog + 1]float64
	looks, paid, followed := 0.0, 0, 0
	for sketch := range uint16(2 * burstySketches) {
		for sw := uint64(1); sw <= 5; sw++ {
			id, largest := disketch.ID{Switch: sw, Sketch: sketch}, uint8(0)
			var choice disketch.Choice
			divided, due := false, false
			for _, epoch := range epochs {
				n := records.N(id, epoch)
				most, divided = max(most, n), divided || n > 1
				if n > 1<<largest || n > 1 && sketch%2 == 1 {
					t.Errorf("%v, epoch %d: %d subepochs, where %d were the most that paid", id, epoch, n, 1<<largest)
				}
				if !records.LookedAt(id, epoch) {
					continue
				}
				path := slices.Repeat([]uint64{sw}, 5)
				errors, err := records.Choose(disketch.TargetSearch{Query: disketch.Query{Sketch: sketch}, Epoch: epoch, Paths: [][]uint64{path}, Trials: 1000, Seed: sw})
				if err != nil {
					t.Fatal(err)
				}
				if errors[0] > 0 && epoch >= began {
					looks++
					for i := range errors {
						ratios[i] += min(errors[i]/errors[0], 10)
					}
				}
				log := choice.Found(errors)
				largest = max(largest, log)
				due = due || log > 0 && epoch+4 <= epochs[len(epochs)-1]
			}
			if due {
				paid++
				if divided {
					followed++
				}
			}
		}
	}
	for i := range ratios {
		ratios[i] /= max(looks, 1)
	}
	t.Logf("up to %d subepochs; in %g epochs in slices the model's squared error with n = 1, 2, 4, 8, 16 over that of n = 1 is %.3g; more than one pays in %d fragments, %d of which had more",
		most, looks, ratios, paid, followed)
	if looks == 0 {
		t.Error("no epoch was counted in slices: n was not chosen")
	}
	if (paid > 0) != (followed > 0) {
		t.Errorf("more than one subepoch pays in %d fragments, and none has more", paid)
	}
	return followed > 0
}

// chanceOfRanks is the chance that the ranks of a among all are so high or higher, if a and b are drawn alike (Mann and Whitney's U, exact). Equal
// values count for a.
func chanceOfRanks(a, b []float64) float64 {
	u := 0
	for _, x := range a {
		for _, y := range b {
			if x > y {
				u++
			}
		}
	}
	// ways[m][v] is in how many of the orders of m of a and the so far few of b v pairs have that of a above.
	ways := make([][]float64, len(a)+1)
	for m := range ways {
		ways[m] = make([]float64, len(a)*len(b)+1)
		ways[m][0] = 1 // of no b
	}
	for n := 1; n <= len(b); n++ {
		for m := 1; m <= len(a); m++ {
			// The largest of all is one of a, above n of b, or one of b.
			next := slices.Clone(ways[m])
			for v := n; v < len(next); v++ {
				next[v] += ways[m-1][v-n]
			}
			ways[m] = next
		}
	}
	all, high := 0.0, 0.0
	for v, w := range ways[len(a)] {
		all += w
		if v >= u {
			high += w
		}
	}
	return high / all
}

// TestChanceOfRanks: of the 6 orders of two and two one has all of a above, two have a sum of ranks as high as that with one pair turned.
func TestChanceOfRanks(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{3, 4}, []float64{1, 2}, 1. / 6}, {[]float64{2, 4}, []float64{1, 3}, 2. / 6}, {[]float64{1, 2}, []float64{3, 4}, 1}, {[]float64{1, 1}, []float64{1, 1}, 1},
		{[]float64{4, 5, 6}, []float64{1, 2, 3}, 1. / 20}, {[]float64{9}, []float64{1, 2, 3, 4}, 1. / 5},
	} {
		if got := chanceOfRanks(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v above %v has the chance %g, want %g", c.a, c.b, got, c.want)
		}
	}
}

// burstySenders are the flows from h1 to h2, and how many datagrams each has sent.
type burstySenders struct {
	r    *rand.Rand
	from [burstyFlows]net.PacketConn
	to   net.PacketConn
	at   net.Addr
	sent []float64
	// halves is how many datagrams there were in each half of an epoch.
	halves map[uint64]float64
}

// burstyHalf is the number of the half of an epoch that it is.
func burstyHalf() uint64 { return disketch.Epochs(29).Epoch(uint64(new(clock.Clock).Now())) }

// even says that flows that send in turn sent as much in one half of an epoch as in the other, nearly: two subepochs
// of each would add an error of less than a twentieth of its datagrams.
func (s *burstySenders) even(epoch uint64) bool {
	a, b := s.halves[2*epoch], s.halves[2*epoch+1]
	return min(a, b) >= 10*burstyFlows && 2*(a*a+b*b)/((a+b)*(a+b))-1 < 0.05*0.05
}

func (l *pintLab) burstySenders() *burstySenders {
	l.t.Helper()
	s := &burstySenders{r: rand.New(rand.NewPCG(1, 'u')), to: l.packetConn(1, "udp", l.bound(1, 0, udpTo)), sent: make([]float64, burstyFlows), halves: map[uint64]float64{}}
	for i := range s.from {
		s.from[i] = l.packetConn(0, "udp", l.bound(0, 0, udpFrom+1+i))
	}
	s.at = net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.address[1][0], udpTo))
	return s
}

// datagrams of a flow, each of which waits for the arrival of the one before.
func (l *pintLab) datagrams(s *burstySenders, flow, n int) {
	l.t.Helper()
	l.exchange(s.from[flow], s.to, s.at, n, func(int) []byte {
		s.sent[flow]++
		s.halves[burstyHalf()]++
		return make([]byte, 100)
	})
}

// burst sends 10 to 50 datagrams of a flow at random, and pauses.
func (l *pintLab) burst(s *burstySenders) {
	l.t.Helper()
	flow := s.r.IntN(burstyFlows)
	if i := slices.Index(s.sent, 0); i >= 0 {
		flow = i // each sends some
	}
	l.datagrams(s, flow, 10+s.r.IntN(41))
	time.Sleep(time.Duration(s.r.IntN(40)) * time.Millisecond)
}

// round sends a datagram of each flow, and pauses.
func (l *pintLab) round(s *burstySenders) {
	l.t.Helper()
	for _, flow := range s.r.Perm(burstyFlows) {
		l.datagrams(s, flow, 1)
	}
	time.Sleep(5 * time.Millisecond)
}
