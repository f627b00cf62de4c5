package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
)

// encodedRecord is a record as it travels.
type encodedRecord struct {
	h    *record.Header
	body []byte
}

const setEpochs, setEpoch = 3, int64(1 << 30)

// setFlow is a flow of the network of a set's tests: it passes switches 1 and 2, or 1, 2 and 3.
func setFlow(i int) (pint.FlowKey, []uint32) {
	k := pint.FlowKey{SrcPort: uint16(1000 + i), DstPort: 80, Proto: 17, Version: 4}
	k.Src, k.Dst = [16]byte{10, 0, 0, byte(i)}, [16]byte{10, 1, 0, 1}
	return k, []uint32{1, 2, 3}[:2+i%2]
}

const setFlows = 60

// setRecords are those of three switches in a row, of all kinds but status, from an edge of an epoch on.
func setRecords(t *testing.T, base int64) (list []encodedRecord) {
	t.Helper()
	p := plan.Default()
	encoder, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	add := func(h record.Header, body func([]byte) ([]byte, error)) {
		h.Name = fmt.Sprint("s", h.Switch)
		encoded, err := record.Append(nil, &h, body)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, encodedRecord{&h, encoded})
	}
	r := rand.New(rand.NewPCG(6, 6))
	type place struct {
		sink uint32
		part int
	}
	sequence, sent := map[place]uint64{}, map[place]uint64{}
	for epoch := base / setEpoch; epoch < base/setEpoch+setEpochs; epoch++ {
		samplers, flows, fragments, points := map[uint32]*oblivious.Sampler{}, map[uint32]*oblivious.Sampler{}, map[uint32]*disketch.Counter{}, [2]*lds.Point{}
		for sw := uint32(1); sw <= 3; sw++ {
			samplers[sw], _ = oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 1000})
			flows[sw], _ = oblivious.NewSampler(oblivious.Config{Kind: oblivious.DUS, Unit: oblivious.Flows, Size: 1000})
			f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: uint64(sw)}, Kind: disketch.UnivMon, Memory: 1 << 16, Epochs: 30, Target: 1})
			if err != nil {
				t.Fatal(err)
			}
			if fragments[sw], err = f.NewCounter(); err != nil {
				t.Fatal(err)
			}
			fragments[sw].Begin(f.Begin(uint64(epoch)), 0)
		}
		for i := range points {
			points[i], _ = lds.NewPoint(lds.Config{Rows: 4, Columns: 200, Virtual: 5, IntervalNs: setEpoch, Seed: 2})
			points[i].Begin(epoch)
		}
		digests := map[place][]pint.Record{}
		for i := range 6000 {
			k, path := setFlow(int(float64(setFlows) * r.Float64() * r.Float64()))
			o := pint.Record{Flow: k, ID: r.Uint64(), TimeNs: uint64(epoch*setEpoch + int64(i)*150_000), Plan: p.ID, Hops: uint8(len(path))}
			for hop, sw := range path {
				v := pint.Observed{pint.SwitchID: uint64(sw), pint.HopLatency: 1000*uint64(sw) + r.Uint64N(500), pint.EgressUtilisation: pint.UtilisationOne / 10, pint.IngressTime: o.TimeNs}
				o.Digest = encoder.Encode(o.ID, hop+1, o.Digest, &v)
				key := query.Key(k)
				samplers[sw].Add(o.ID, 100, &key)
				flows[sw].Add(query.Hash(0, key, 77), 1, &key)
				fragments[sw].Add(uint64(uint32(query.Hash(0, key, 0))), 1, false)
				if sw <= 2 {
					points[sw-1].Add(query.Hash(0, key, 0), o.ID, int64(o.TimeNs)+int64(sw)*2000, 100)
				}
			}
			at := place{path[len(path)-1], k.Partition(record.Partitions)}
			digests[at] = append(digests[at], o)
		}
		h := record.Header{Start: epoch * setEpoch, Span: setEpoch}
		for sw := uint32(1); sw <= 3; sw++ {
			h.Switch, h.Kind, h.Instance = sw, record.Oblivious, 0
			add(h, samplers[sw].Sample().AppendBinary)
			h.Instance = 1
			add(h, flows[sw].Sample().AppendBinary)
			h.Kind, h.Instance = record.DiSketch, 0
			add(h, fragments[sw].Record().AppendBinary)
		}
		for i, instance := range []uint16{1, 0} {
			h.Switch, h.Kind, h.Instance = uint32(i+1), record.LDS, instance
			add(h, points[i].AppendBinary)
		}
		for sink := uint32(2); sink <= 3; sink++ {
			for part := range record.Partitions {
				at := place{sink, part}
				if len(digests[at]) == 0 {
					continue
				}
				b := &pint.DigestBatch{Boot: 9, Sequence: sequence[at], Sent: sent[at], Plan: p.ID, Records: digests[at]}
				sequence[at]++
				sent[at] += uint64(len(b.Records))
				h.Switch, h.Kind, h.Instance, h.Plan = sink, record.PINT, uint16(part), p.ID
				add(h, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
				h.Plan = 0
			}
		}
	}
	return list
}

// setBed is collectors over the NATS server of a first one, which has all records itself.
type setBed struct {
	one      *collectBed
	members  []*collectBed
	password string
	spools   map[uint32]func(encodedRecord)
}

// newSetBed starts the first one; so many members may join it.
func newSetBed(t *testing.T, members int) *setBed {
	t.Helper()
	b := &setBed{password: filepath.Join(t.TempDir(), "password"), spools: map[uint32]func(encodedRecord){}}
	if err := os.WriteFile(b.password, []byte("open\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := ""
	for i := range members {
		text += fmt.Sprintf("[[nats.client]]\nname = \"m%d\"\nrole = \"collector\"\npassword_file = %q\n", i, b.password)
	}
	for sw := 1; sw <= 3; sw++ {
		text += fmt.Sprintf("[[nats.client]]\nname = \"s%[1]d\"\nswitch = %[1]d\npassword_file = %[2]q\n", sw, b.password)
	}
	b.one = newCollectBed(t, "", text+patient)
	b.one.start(t)
	return b
}

// patient gives answers as long as a loaded machine takes under the race detector.
const patient = "[limits]\nquery_time = \"5m\"\n"

// join starts a member with its [partitions].
func (b *setBed) join(t *testing.T, partitions string) *collectBed {
	t.Helper()
	i := len(b.members)
	m := newCollectBed(t, fmt.Sprintf("servers = [\"nats://%s\"]\nuser = \"m%d\"\npassword_file = %q\n", b.one.nats, i, b.password), "[partitions]\n"+partitions+patient)
	text, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.file, []byte(strings.Replace(string(text), `name = "c1"`, fmt.Sprintf("name = %q", fmt.Sprint("m", i)), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.members = append(b.members, m)
	m.start(t)
	return m
}

// send has a switch publish a record.
func (b *setBed) send(t *testing.T, r encodedRecord) {
	t.Helper()
	write := b.spools[r.h.Switch]
	if write == nil {
		spool, _ := sender(t, jetstream.Options{
			Servers: []string{"nats://" + b.one.nats}, User: fmt.Sprint("s", r.h.Switch), PasswordFile: b.password, Inbox: jetstream.Acks(r.h.Switch),
		})
		write = func(r encodedRecord) {
			if err := spool.Write(r.h, r.body); err != nil {
				t.Error(err)
			}
		}
		b.spools[r.h.Switch] = write
	}
	write(r)
}

// text is an answer of a collector, or why there is none.
func (b *collectBed) text(t *testing.T, q *query.Question) string {
	t.Helper()
	a, err := b.client.Ask(t.Context(), q)
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// unreached are the partitions that an answer to a question about all paths lacks; false: there is no answer.
func (b *collectBed) unreached(ctx context.Context) (list []int, err error) {
	a, err := b.client.Ask(ctx, &query.Question{Kind: query.KindPath})
	if err != nil {
		return nil, err
	}
	for _, m := range a.(*query.PathAnswer).Missing {
		if m.Unreached != "" {
			list = append(list, int(m.Instance))
		}
	}
	return list, nil
}

// TestSetOfFour: each of four collectors answers questions of all kinds as one does that has all records; one that is killed is named
// by its partitions until it is back.
func TestSetOfFour(t *testing.T) {
	const of = 4
	b := newSetBed(t, of)
	for i := range of {
		b.join(t, fmt.Sprintf("index = %d\nof = %d\n", i, of))
	}
	base := (clock.Kernel.TAI() - int64(time.Minute)) / setEpoch * setEpoch
	all, digests := setRecords(t, base), uint64(0)
	for _, r := range all {
		b.send(t, r)
		if r.h.Kind == record.PINT {
			digests++
		}
	}
	awaitState(t, "all records in all collectors", func() (string, bool) {
		text, n, done := "", uint64(0), true
		for _, m := range append([]*collectBed{b.one}, b.members...) {
			s := m.status(t)
			text += fmt.Sprintln(s.Kinds)
			done = done && collectedKind(s, record.LDS).Records == 2*setEpochs && collectedKind(s, record.Oblivious).Records == 6*setEpochs && collectedKind(s, record.DiSketch).Records == 3*setEpochs
			n += collectedKind(s, record.PINT).Records
		}
		return text, done && n == 2*digests && collectedKind(b.one.status(t), record.PINT).Records == digests
	})
	flow, _ := setFlow(3)
	name := query.FormatKey(query.Key(flow))
	whole := query.Question{Start: base, End: base + setEpochs*setEpoch}
	var questions []query.Question
	for _, k := range query.Kinds() {
		q := whole
		q.Kind = k
		switch k {
		case query.KindFrequency:
			q.Flow = name
		case query.KindDelay, query.KindLoss:
			q.From, q.To = "s1", "s2"
			questions = append(questions, q)
			q.Flow, q.Segments = name, true
		case query.KindPath, query.KindLatency, query.KindCongestion, query.KindLoops:
			questions = append(questions, q)
			q.Start, q.End = base+setEpoch/2, base+2*setEpoch
			questions = append(questions, q)
			q.Src = "10.0.0.0/28"
			questions = append(questions, q)
			q.Src, q.Flow = "", name
		case query.KindHeavyHitters:
			questions = append(questions, q)
			q.By, q.Theta = query.BySketch, 0.01
		case query.KindNetwork:
			continue // its ages are of the moment
		}
		questions = append(questions, q)
		if k.HasSeries() {
			q.Step, q.Segments = time.Second, false
			questions = append(questions, q)
		}
	}
	compare := func(t *testing.T) {
		for i, q := range questions {
			m := b.members[i%of]
			var got, want string
			awaitState(t, fmt.Sprintf("the answer of one collector to %+v", q), func() (string, bool) {
				got, want = m.text(t, &q), b.one.text(t, &q)
				return fmt.Sprintf("%.2000s\none: %.2000s", got, want), got == want && strings.HasPrefix(want, "{")
			})
		}
	}
	compare(t)

	b.members[2].kill()
	awaitState(t, "the partitions of the collector that was killed", func() (string, bool) {
		list, err := b.members[0].unreached(t.Context())
		return fmt.Sprint(list, err), slices.Equal(list, []int{2, 6, 10, 14})
	})
	lost := 0
	for i := range setFlows {
		k, _ := setFlow(i)
		_, err := b.members[1].client.Ask(t.Context(), &query.Question{Kind: query.KindPath, Flow: query.FormatKey(query.Key(k))})
		if p := k.Partition(record.Partitions); (p%of == 2) != (err != nil) || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("partition %d: no collector that has them is there", p)) {
			t.Errorf("flow %d of partition %d: %v", i, p, err)
		} else if err != nil {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no flow was of the collector that was killed")
	}
	b.members[2].start(t)
	awaitState(t, "all partitions again", func() (string, bool) {
		list, err := b.members[0].unreached(t.Context())
		return fmt.Sprint(list, err), err == nil && len(list) == 0
	})
	compare(t)

	// What is no request is refused, and counted; a switch may not ask at all.
	asker, err := nats.Connect("nats://"+b.one.nats, nats.UserInfo("m3", "open"), nats.CustomInboxPrefix(jetstream.Inbox("m3")))
	if err != nil {
		t.Fatal(err)
	}
	defer asker.Close()
	for _, text := range []string{"", "{}", `{"v":1,"window":{"from_ns":2,"to_ns":1}}`, `{"v":1,"secret":2}`, strings.Repeat("x", 10_000), `{"v":1,"batches":true,"flows":{"flow":"nonsense"}}`} {
		answer, err := asker.Request(jetstream.Digests(0), []byte(text), time.Minute)
		if err != nil || !strings.Contains(string(answer.Data), `"refused":"invalid"`) || len(answer.Data) > 200 {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	refused := make(chan error, 8)
	sw, err := nats.Connect("nats://"+b.one.nats, nats.UserInfo("s1", "open"), nats.CustomInboxPrefix(jetstream.Acks(1)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer sw.Close()
	for _, do := range []func() error{
		func() error { return sw.Publish(jetstream.Digests(1), nil) },
		func() error { return sw.Publish(jetstream.Members, nil) },
		func() error { _, err := sw.SubscribeSync(jetstream.AllDigests); return err },
		func() error { _, err := sw.SubscribeSync(jetstream.Members); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		if err := sw.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := <-refused; !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
			t.Error(err)
		}
	}
	if out := b.members[0].metrics(t); !strings.Contains(out, `weir_collect_set_requests_total{outcome="invalid"} 6`) || !strings.Contains(out, "weir_collect_set_partitions 4\n") {
		t.Errorf("metrics:\n%s", out)
	}
	for _, m := range append(b.members, b.one) {
		m.stop(t)
	}
}

// TestSetMoves: collectors that share the partitions come and go while records come and questions are asked: each answer about a time
// whose records were there before has each digest once, or names what is missing, which only a kill makes.
func TestSetMoves(t *testing.T) {
	b := newSetBed(t, 4)
	const share = "share = true\n"
	b.join(t, share)
	b.join(t, share)
	base := (clock.Kernel.TAI() - int64(time.Minute)) / setEpoch * setEpoch
	for _, r := range setRecords(t, base) {
		b.send(t, r)
	}
	q := &query.Question{Kind: query.KindLatency, Start: base, End: base + setEpochs*setEpoch}
	var want *query.LatencyAnswer
	awaitState(t, "all records", func() (string, bool) {
		a, err := b.one.client.Ask(t.Context(), q)
		want, _ = a.(*query.LatencyAnswer)
		return fmt.Sprint(a, err), want != nil && want.Digests == setEpochs*6000
	})
	truth := b.one.text(t, q)
	complete := func(m *collectBed) {
		t.Helper()
		awaitState(t, "the whole answer", func() (string, bool) {
			got := m.text(t, q)
			return got, got == truth
		})
	}
	complete(b.members[0])
	complete(b.members[1])

	ctx, end := context.WithCancel(t.Context())
	var load sync.WaitGroup
	d := &digests{sw: 1, base: base + 4*setEpoch}
	load.Go(func() { // of later times
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			h, encoded := d.batch(t)
			b.send(t, encodedRecord{h, encoded})
		}
	})
	var mayLack, asked, lacking sync.Map
	for i, m := range b.members[:2] {
		load.Go(func() {
			for ctx.Err() == nil {
				_, before := mayLack.Load("killed")
				got := m.text(t, q)
				_, after := mayLack.Load("killed")
				n, _ := asked.LoadOrStore(i, new(int))
				*n.(*int)++
				if got == truth || ctx.Err() != nil {
					continue
				}
				lacking.Store(i, got)
				if !before && !after {
					t.Errorf("member %d: %.600s", i, got)
					end()
				} else if strings.HasPrefix(got, "{") && !strings.Contains(got, `"unreached"`) {
					t.Errorf("member %d lacks digests and names none: %.600s", i, got)
					end()
				}
			}
		})
	}
	third := b.join(t, share)
	holds := func(m *collectBed) int {
		n := 0
		for _, line := range strings.Split(m.metrics(t), "\n") {
			_, _ = fmt.Sscanf(line, "weir_collect_set_partitions %d", &n)
		}
		return n
	}
	shares := func(members ...*collectBed) {
		t.Helper()
		awaitState(t, "the partitions to be divided", func() (string, bool) {
			var list []int
			sum, most := 0, 0
			for _, m := range members {
				n := holds(m)
				list, sum, most = append(list, n), sum+n, max(most, n)
			}
			return fmt.Sprint(list), sum == record.Partitions && most <= (record.Partitions+len(members)-1)/len(members)
		})
	}
	shares(b.members[0], b.members[1], third)
	complete(third)
	third.stop(t) // as an operator removes it: the others take what it has before it ends
	shares(b.members[0], b.members[1])
	fourth := b.join(t, share)
	shares(b.members[0], b.members[1], fourth)
	mayLack.Store("killed", true)
	fourth.kill()
	shares(b.members[0], b.members[1])
	complete(b.members[0])
	complete(b.members[1])
	end()
	load.Wait()
	// In the end each record of the load is in one answer, once.
	later := &query.Question{Kind: query.KindPath, Start: d.base, End: d.base + int64(d.next)<<16}
	awaitState(t, "all of the load", func() (string, bool) {
		a, err := b.one.client.Ask(t.Context(), later)
		p, ok := a.(*query.PathAnswer)
		return fmt.Sprintf("%.600s, %v, of %d records", b.members[0].text(t, later), err, d.next),
			ok && p.Digests == d.next*digestsEach && b.one.text(t, later) == b.members[0].text(t, later)
	})
	asked.Range(func(i, n any) bool {
		_, lacked := lacking.Load(i)
		t.Logf("member %v: %d answers, lacking when one was killed: %v", i, *n.(*int), lacked)
		return true
	})
}

// TestSetFarFromEnd: a member that has much to read reads all subjects, and takes what is its own, once; near the stream's end it asks for its own alone.
func TestSetFarFromEnd(t *testing.T) {
	b := newSetBed(t, 1)
	const many, more = 12_000, 500
	d := &digests{sw: 1, base: (clock.Kernel.TAI() - int64(time.Minute)) / setEpoch * setEpoch}
	own, all := uint64(0), uint64(0)
	index0 := (&collect.Partitions{Index: 0, Of: 2}).Fixed()
	send := func(n int) {
		for range n {
			h, encoded := d.batch(t)
			if index0.Has(int(h.Instance)) {
				own++
			}
			all++
			b.send(t, encodedRecord{h, encoded})
		}
	}
	taken := func(m *collectBed, want uint64) {
		t.Helper()
		awaitState(t, "all records", func() (string, bool) {
			k := collectedKind(m.status(t), record.PINT)
			return fmt.Sprint(k, want), k.Records == want
		})
	}
	send(many)
	taken(b.one, all)
	m := b.join(t, "index = 0\nof = 2\n")
	taken(m, own)
	passed := m.metric(t, "weir_collect_passed_messages_total")
	if far := float64(all-own) * 0.8; passed < far || passed > float64(all-own) {
		t.Errorf("%v messages were passed over, of %d that are others'", passed, all-own)
	}
	send(more)
	taken(b.one, all)
	taken(m, own)
	if again := m.metric(t, "weir_collect_passed_messages_total"); again != passed {
		t.Errorf("at the stream's end %v messages were passed over", again-passed)
	}
	if n := m.metric(t, `weir_collect_received_records_total{kind="pint"}`); n != float64(own) {
		t.Errorf("%v records count as received, of %d", n, own)
	}
}
