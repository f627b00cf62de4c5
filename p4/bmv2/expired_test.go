package bmv2

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"
)

// notification is one of ageing.
func notification(table uint32, handles ...uint32) []byte {
	m := make([]byte, learnHeader)
	copy(m, "AGE|")
	binary.NativeEndian.PutUint32(m[24:], table)
	binary.NativeEndian.PutUint32(m[28:], uint32(len(handles)))
	for _, h := range handles {
		m = binary.NativeEndian.AppendUint32(m, h)
	}
	return m
}

func TestReadExpired(t *testing.T) {
	p := &Program{numbers: map[int]string{3: "ingress.stations"}}
	e, ok := p.readExpired(notification(3, 7, 1<<24|9))
	if !ok || e.Table != "ingress.stations" || !slices.Equal(e.Handles, []int32{7, 1<<24 | 9}) {
		t.Errorf("%+v, %v", e, ok)
	}
	for what, m := range map[string][]byte{"another table": notification(4, 7), "cut": notification(3, 7)[:learnHeader+2]} {
		if e, ok := p.readExpired(m); ok {
			t.Errorf("%s: %+v", what, e)
		}
	}
}

// TestExpired: the switch tells of entries that were not hit for their time, and of no others.
func TestExpired(t *testing.T) {
	s := start(t, reflector)
	var handles []int32
	for _, command := range []string{"table_add stations to 1 => 1", "table_add stations to 2 => 2", "table_add stations to 3 => 3"} {
		h, err := s.AddEntry(command)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, h)
	}
	for i, ttl := range []time.Duration{time.Millisecond, time.Hour} {
		if err := s.SetEntryTTL("stations", handles[i], ttl); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetEntryTTL("stations", handles[2], 0); err == nil {
		t.Error("an entry may live for no time")
	}
	if err := s.SetEntryTTL("prefixes", handles[2], time.Second); err == nil {
		t.Error("an entry of a table without support_timeout may have a time to live")
	}
	deadline := time.Now().Add(30 * time.Second)
	e, ok := s.Expired()
	for ; !ok && time.Now().Before(deadline); e, ok = s.Expired() {
		time.Sleep(10 * time.Millisecond)
	}
	if !ok || e.Table != "ingress.stations" || !slices.Equal(e.Handles, handles[:1]) {
		t.Errorf("expired: %+v, %v; want handle %d", e, ok, handles[0])
	}
}
