package mirror

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

var testEnv = pipeline.Env{ID: 3, Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}, {Name: "p3"}}}

// rig is a stage over a batch with frames of its own.
type rig struct {
	*Module
	*stage
	*packet.Batch
	pool *packet.Pool
}

func newRig(t testing.TB, frames, capacity int, sessions ...Session) *rig {
	t.Helper()
	m, err := New(Config{Sessions: sessions}, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := packet.NewPool(packet.PoolConfig{Frames: frames, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return &rig{m, m.Stage(0).(*stage), packet.NewBatch(pool.NewCache(), capacity), pool}
}

// add appends a packet of 100 bytes, all equal to its number in the batch.
func (r *rig) add(t testing.TB, in, out uint16) *packet.Packet {
	t.Helper()
	addr, ok := r.Frames.AllocOne()
	if !ok {
		t.Fatal("no frame")
	}
	n := byte(len(r.Pkts))
	p := r.Append()
	p.Addr, p.Len, p.WireLen, p.InPort, p.OutPort = addr+64, 100, 100, in, out
	copy(r.Data(p), bytes.Repeat([]byte{n}, 100))
	return p
}

// end frees all frames and fails if one is lost.
func (r *rig) end(t testing.TB) {
	t.Helper()
	for i := range r.Pkts {
		r.Frames.FreePacket(&r.Pkts[i])
	}
	r.Reset()
	r.Frames.Close()
	if free := r.pool.Free(); free != r.pool.Frames() {
		t.Errorf("%d of %d frames are free", free, r.pool.Frames())
	}
}

func TestDirections(t *testing.T) {
	for _, tc := range []struct {
		direction string
		want      []byte // numbers of the packets that are mirrored
	}{{In, []byte{0, 3}}, {Out, []byte{1, 3, 5}}, {Both, []byte{0, 1, 3, 5}}, {"", []byte{0, 1, 3, 5}}} {
		r := newRig(t, 64, packet.BatchSize, Session{Ports: []string{"p0"}, Direction: tc.direction, To: "p3"})
		r.add(t, 0, 1)
		r.add(t, 1, 0)
		r.add(t, 1, 2)
		r.add(t, 0, 0)
		r.Drop(r.add(t, 0, 1), packet.ReasonNoPort)
		r.add(t, 1, 0).Flags |= packet.FlagCopy
		r.add(t, 0, 2).Flags |= packet.FlagCopy
		n := len(r.Pkts)
		r.Process(r.Batch)
		var got []byte
		for i := n; i < len(r.Pkts); i++ {
			p := &r.Pkts[i]
			data := r.Data(p)
			if p.OutPort != 3 || !p.Flags.Has(packet.FlagCopy) || len(data) != 100 || p.Reason != 0 {
				t.Errorf("%s: copy %+v", tc.direction, p)
			}
			got = append(got, data[0])
		}
		if !bytes.Equal(got, tc.want) || r.Copied != len(tc.want) {
			t.Errorf("%s: mirrored %v, want %v", tc.direction, got, tc.want)
		}
		if c := r.Counters(); c[0].Mirrored != uint64(len(tc.want)) || c[0].Truncated != 0 {
			t.Errorf("%s: %+v", tc.direction, c)
		}
		r.end(t)
	}
}

// TestTruncate cuts a packet of three frames to less than the first.
func TestTruncate(t *testing.T) {
	r := newRig(t, 16, packet.BatchSize, Session{Name: "cut", Ports: []string{"p0"}, To: "p3", TruncateBytes: 40},
		Session{Name: "whole", Ports: []string{"p0"}, To: "p2", TruncateBytes: 2000})
	p := r.add(t, 0, 1)
	var link uint32
	for range 2 {
		addr, _ := r.Frames.AllocOne()
		link = r.pool.Link(addr, 50, link)
	}
	p.Next, p.WireLen = link, 200
	r.Process(r.Batch)
	cut, whole := &r.Pkts[1], &r.Pkts[2]
	if cut.Len != 40 || cut.WireLen != 40 || cut.Next != 0 {
		t.Errorf("cut: %+v", cut)
	}
	if whole.WireLen != 200 || whole.Next == 0 || len(r.AppendBytes(nil, whole)) != 200 {
		t.Errorf("whole: %+v", whole)
	}
	if c := r.Counters(); c[0].Truncated != 1 || c[1].Truncated != 0 {
		t.Errorf("%+v", c)
	}
	r.end(t)
}

// TestNoRoom: what cannot be copied is counted, for want of room or of frames.
func TestNoRoom(t *testing.T) {
	r := newRig(t, packet.BatchSize+10, packet.BatchSize, Session{Ports: []string{"p0"}, To: "p3"})
	for range packet.BatchSize - 5 {
		r.add(t, 0, 1)
	}
	r.Process(r.Batch)
	if r.Copied != 5 || r.NoRoom != packet.BatchSize-10 {
		t.Errorf("%d copied, %d without room", r.Copied, r.NoRoom)
	}
	r.end(t)
	r = newRig(t, 12, packet.BatchSize, Session{Ports: []string{"p0"}, To: "p3"})
	for range 8 {
		r.add(t, 0, 1)
	}
	r.Process(r.Batch)
	if r.Copied != 4 || r.NoFrame != 4 || r.Counters()[0].Mirrored != 4 {
		t.Errorf("%d copied, %d without a frame", r.Copied, r.NoFrame)
	}
	r.end(t)
}

// TestSampling draws 1 of 16 of 64,000 packets. With the switch's own seed the
// outcome is fixed; over seeds it would be outside of six standard deviations
// with a probability below 1e-8.
func TestSampling(t *testing.T) {
	r := newRig(t, 256, 2*packet.BatchSize, Session{Ports: []string{"p0"}, To: "p3", OneIn: 16})
	for range 1000 {
		for range packet.BatchSize {
			r.add(t, 0, 1)
		}
		r.Process(r.Batch)
		for i := range r.Pkts {
			r.Frames.FreePacket(&r.Pkts[i])
		}
		r.Reset()
	}
	if got := r.Counters()[0].Mirrored; got < 4000-6*62 || got > 4000+6*62 {
		t.Errorf("%d of 64000 mirrored", got)
	}
	r.end(t)
}

// TestCountsFollowNames: counts go with a session's name when sessions change,
// and a new one begins at zero.
func TestCountsFollowNames(t *testing.T) {
	r := newRig(t, 64, packet.BatchSize, Session{Name: "a", Ports: []string{"p0"}, To: "p3"}, Session{Name: "b", Ports: []string{"p1"}, To: "p3"})
	pass := func(in ...uint16) {
		for _, p := range in {
			r.add(t, p, 2)
		}
		r.Process(r.Batch)
		for i := range r.Pkts {
			r.Frames.FreePacket(&r.Pkts[i])
		}
		r.Reset()
	}
	pass(0, 0, 0, 1)
	set := func(sessions ...Session) {
		if err := r.setConfig(Config{Sessions: sessions}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...Counters) {
		t.Helper()
		if got := r.Counters(); !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	want(Counters{"a", 3, 0}, Counters{"b", 1, 0})
	set(Session{Name: "b", Ports: []string{"p1"}, To: "p3"}, Session{Name: "c", Ports: []string{"p0"}, To: "p3"})
	want(Counters{"b", 1, 0}, Counters{"c", 0, 0})
	pass(0, 1, 1)
	want(Counters{"b", 3, 0}, Counters{"c", 1, 0})
	var all []Session
	for i := range MaxSessions {
		all = append(all, Session{Name: fmt.Sprint("n", i), Ports: []string{"p0"}, To: "p3"})
	}
	set(all...)
	for _, c := range r.Counters() {
		if c.Mirrored != 0 {
			t.Errorf("%+v of a new session", c)
		}
	}
	r.end(t)
}

func TestFaults(t *testing.T) {
	c := Config{Sessions: []Session{
		{Ports: []string{"p9"}, To: "p9", Direction: "up", TruncateBytes: 5, OneIn: -1, Name: "2"},
		{}, {Ports: []string{"p0"}, To: "p0"},
	}}
	err := c.Validate([]string{"p0"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`session[0].ports: port "p9"`, `session[0].to: port "p9"`, `session[0].direction: "up"`, "session[0].truncate_bytes: 5", "session[0].one_in: -1",
		`session[1].name: session[0] is called "2"`, "session[1].ports: is missing", `session[1].to: is missing`, `session[2].to: port "p0" is watched itself`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	for _, c := range []Config{
		{Sessions: []Session{{Ports: []string{"p0"}, To: "p1", TruncateBytes: 1<<32 + 5}}},
		{Sessions: make([]Session, MaxSessions+1)},
	} {
		err := c.Validate([]string{"p0", "p1"})
		if err == nil || !strings.Contains(err.Error(), "truncate_bytes: 4294967301") && !strings.Contains(err.Error(), "65 sessions: 64 at most") {
			t.Errorf("%d sessions: %v", len(c.Sessions), err)
		}
	}
	r := newRig(t, 4, packet.BatchSize, Session{Ports: []string{"p1"}, To: "p3"})
	if r.setConfig(Config{Sessions: make([]Session, MaxSessions+1)}) == nil || r.setConfig(c) == nil {
		t.Error("a wrong configuration was taken")
	}
	if got := r.Explain(r.Batch, &packet.Packet{InPort: 1}); got != "watched by session 1" {
		t.Error(got)
	}
	if got := r.Explain(r.Batch, &packet.Packet{InPort: 0, OutPort: packet.NoPort}); got != "no session watches it" {
		t.Error(got)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	r := newRig(t, 256, 2*packet.BatchSize, Session{Ports: []string{"p0"}, To: "p3"})
	if n := testing.AllocsPerRun(100, func() {
		for range packet.BatchSize {
			addr, _ := r.Frames.AllocOne()
			p := r.Append()
			p.Addr, p.Len, p.WireLen, p.InPort, p.OutPort = addr, 60, 60, 0, 1
		}
		r.Process(r.Batch)
		for i := range r.Pkts {
			r.Frames.FreePacket(&r.Pkts[i])
		}
		r.Reset()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSubinterfaces: who watches a port sees what is of the VLAN subinterfaces on it, wherever the tags are put on; copies go to
// subinterfaces, and what leaves by them is watched, in front of the stage tag alone.
func TestSubinterfaces(t *testing.T) {
	env := testEnv
	env.Ports = []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}, {Name: "p1.5", Parent: 1, VLAN: 5}, {Name: "p2.5", Parent: 2, VLAN: 5}}
	sessions := []Session{{Name: "trunk", Ports: []string{"p1"}, To: "p2.5"}, {Name: "self", Ports: []string{"p2"}, To: "p2.5"}}
	m, err := New(Config{Sessions: sessions}, env)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 64, 64)
	defer r.end(t)
	for _, ports := range [][2]uint16{{3, 0}, {0, 3}, {1, 0}, {0, 1}, {0, 4}} {
		r.add(t, ports[0], ports[1])
	}
	m.Stage(0).Process(r.Batch)
	var from []byte
	for i := range r.Pkts[5:] {
		p := &r.Pkts[5+i]
		from = append(from, r.Data(p)[0])
		if p.OutPort != 4 {
			t.Errorf("a copy leaves by %d", p.OutPort)
		}
	}
	if !bytes.Equal(from, []byte{0, 1, 2, 3}) {
		t.Errorf("copies of the packets %v", from)
	}
	for _, c := range []struct {
		session Session
		want    string
	}{
		{sessions[0], `session[0].to: nothing would put the tag of "p2.5" on copies: write "mirror" in front of "tag"`},
		{Session{Ports: []string{"p1.5"}, To: "p0"}, `session[0].ports: what leaves by "p1.5" has left it where copies are made`},
		{Session{Ports: []string{"p1.5"}, Direction: In, To: "p0"}, ""},
		{Session{Ports: []string{"p1"}, To: "p0"}, ""},
	} {
		m, err := New(Config{Sessions: []Session{c.session}}, env)
		if err != nil {
			t.Fatal(err)
		}
		if err := pipeline.Join([]pipeline.Named{{Name: "mirror", Module: m}, {Name: "tag"}}); err != nil {
			t.Errorf("in front of tag: %v", err)
		}
		err = pipeline.Join([]pipeline.Named{{Name: "tag"}, {Name: "mirror", Module: m}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
		// What a reload would bring is checked as well.
		if _, err := m.Prepare(Config{Sessions: []Session{c.session}}, env.Ports); (err != nil) != (c.want != "") {
			t.Errorf("by a reload: %v, want %q", err, c.want)
		}
	}
}
