package live

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/record"
)

// TestStatuses: a status per second and one at the end, but none that is the same as the one before: the stream would take one of the two, and the
// other would look lost.
func TestStatuses(t *testing.T) {
	s := &statuses{rows: &rowsOfSwitches{}, boot: 1}
	n, seen := 0, map[string]bool{}
	emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
		b, err := record.Append(nil, h, body)
		if err != nil || seen[string(b)] {
			t.Fatalf("%v, or a record again", err)
		}
		seen[string(b)] = true
		n++
	}
	at := int64(100 << statusBits)
	s.Collect(at, false, emit)
	s.Collect(at+1, false, emit)
	s.Collect(at+1<<statusBits, false, emit)
	s.Collect(at+1<<statusBits, true, emit)
	if n != 2 {
		t.Errorf("%d statuses of two seconds", n)
	}
	if s.Collect(at+1<<statusBits+1, true, emit); n != 3 {
		t.Errorf("%d statuses, none at the end", n)
	}
}
