package live

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/record"
)

// TestAccount: what is in the stream once, again, without a sender, and not at all is counted so, and is a fault but where it is counted as dropped.
func TestAccount(t *testing.T) {
	encoded := func(sw uint32) []byte {
		b, err := record.Append(nil, &record.Header{Kind: record.Status, Switch: sw, Name: "s", Span: 1}, func(b []byte) ([]byte, error) { return append(b, "body"...), nil })
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	marks := map[mark]int{}
	for sw := range uint32(4) {
		marks[mark(appendMark(nil, record.Status, encoded(sw)))] = 0
	}
	m := measured{stream: streamed{kinds: map[record.Kind]uint64{}}}
	s := &m.stream
	for _, sw := range []uint32{0, 1, 2} {
		s.take(marks, encoded(sw))
	}
	s.finish(marks)
	dropped := []counts{{Kinds: map[string]*kindCount{"status": {Dropped: map[string]uint64{"spool_full": 1}}}}}
	waiting := []counts{{Kinds: map[string]*kindCount{"status": {Waiting: 1}}}}
	if s.once != 3 || s.absent != 1 || s.messages != 3 || m.fault(dropped) != nil || m.fault(waiting) != nil {
		t.Errorf("%+v: %v", s, m.fault(dropped))
	}
	if m.fault(nil) == nil || s.unaccounted(nil) != 1 {
		t.Error("a record that was not counted is missing, and it is no fault")
	}
	s.take(marks, encoded(1))
	if s.again != 1 || m.fault(dropped) == nil {
		t.Errorf("%+v: a record came twice", s)
	}
	s.again = 0
	s.take(marks, encoded(9))
	if s.strange != 1 || m.fault(dropped) == nil {
		t.Errorf("%+v: no switch wrote it", s)
	}
	s.strange = 0
	s.take(marks, []byte("no record"))
	if s.strange != 1 {
		t.Errorf("%+v: it is no record", s)
	}
}
