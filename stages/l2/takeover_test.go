package l2

import (
	"testing"

	"github.com/weirswitch/weir/pipeline"
)

// stateful is a bridge of three ports.
func stateful(t testing.TB) *Module {
	t.Helper()
	m, err := New(DefaultConfig(), pipeline.Env{Workers: 1, Ports: []pipeline.Port{{Name: "a"}, {Name: "b"}, {Name: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestState: stations pass to a bridge whose ports have other numbers; those of a port that it does not have, and those that are too old, do not.
func TestState(t *testing.T) {
	m, now := stateful(t), clockTAI()
	m.mu.Lock()
	for i := range 300 {
		m.fdb.learn(makeKey(7, MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}), uint16(i%3), stampOf(now))
	}
	m.mu.Unlock()
	names := []string{"a", "b", "c"}
	text, err := m.AppendState(nil, names)
	if err != nil {
		t.Fatal(err)
	}
	n := stateful(t)
	if err := n.TakeState(text, names, map[string]uint16{"a": 2, "b": 0}); err != nil {
		t.Fatal(err)
	}
	entries := n.Entries(nil, now)
	if len(entries) != 200 {
		t.Errorf("%d stations passed, and not 200", len(entries))
	}
	for _, e := range entries {
		i := int(e.MAC[4])<<8 | int(e.MAC[5])
		if want := []uint16{2, 0}[min(i%3, 1)]; i%3 == 2 || e.Port != want || e.VLAN != 7 {
			t.Errorf("station %v", e)
		}
	}
	for cut := range 40 {
		if err := stateful(t).TakeState(text[:cut], names, map[string]uint16{"a": 0}); err == nil && (cut < 3 || (cut-3)%stationSize != 0) {
			t.Errorf("a state of %d bytes was taken", cut)
		}
	}
	if err := stateful(t).TakeState(append([]byte{stateVersion + 1}, text[1:]...), names, nil); err == nil {
		t.Error("a state of another version was taken")
	}
}

func FuzzState(f *testing.F) {
	m := stateful(f)
	m.fdb.learn(makeKey(1, MAC{2, 1}), 1, stampOf(clockTAI()))
	names := []string{"a", "b", "c"}
	text, _ := m.AppendState(nil, names)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		n := stateful(t)
		if n.TakeState(text, names, map[string]uint16{"a": 0, "b": 1, "c": 2}) != nil {
			return
		}
		for _, e := range n.Entries(nil, clockTAI()) {
			if !e.MAC.learnable() || e.Port > 2 {
				t.Fatalf("station %v", e)
			}
		}
	})
}
