package jetstream

import (
	"math"
	"testing"

	"github.com/weirswitch/weir/telemetry/record"
)

func TestSubject(t *testing.T) {
	for _, c := range []struct {
		h    record.Header
		want string
	}{
		{record.Header{Kind: record.PINT, Switch: 3, Instance: 7, Start: 5 << 30, Span: 1 << 30}, "weir.records.pint.7.5.3"},
		{record.Header{Kind: record.DiSketch, Switch: 1, Instance: 7, Start: 9 << 20, Span: 1 << 20}, "weir.records.disketch.0.9.1"},
		{record.Header{Kind: record.LDS, Switch: math.MaxUint32, Start: -1, Span: 1 << 20}, "weir.records.lds.0.-1.4294967295"},
		{record.Header{Kind: record.Oblivious, Start: 77}, "weir.records.oblivious.0.0.0"},
		{record.Header{Kind: 200, Start: math.MinInt64, Span: 1}, "weir.records.kind-200.0.-9223372036854775808.0"},
	} {
		if got := Subject(&c.h); got != c.want {
			t.Errorf("%+v: %s, want %s", c.h, got, c.want)
		}
	}
	if got := Filter(record.PINT, 7); got != "weir.records.pint.7.>" {
		t.Error(got)
	}
}

// TestID: equal records have equal ids, and whatever differs makes another one.
func TestID(t *testing.T) {
	body := func(b byte) func([]byte) ([]byte, error) {
		return func(dst []byte) ([]byte, error) { return append(dst, b), nil }
	}
	seen := map[string]record.Header{}
	for sw := range uint32(3) {
		for kind := range record.Kind(4) {
			for start := range int64(5) {
				h := record.Header{Kind: kind, Switch: sw, Start: start}
				b, err := record.Append(nil, &h, body(1))
				if err != nil {
					t.Fatal(err)
				}
				id := ID(Secret{}, b, sw)
				if other, there := seen[id]; there || id != ID(Secret{}, append([]byte(nil), b...), sw) || len(id) != 26 {
					t.Errorf("%+v: %s, as %+v", h, id, other)
				}
				seen[id] = h
			}
		}
	}
	if ID(Secret{}, nil, 1) == "" || ID(Secret{}, nil, 1) == ID(Secret{1}, nil, 1) {
		t.Error("ids do not depend on the secret")
	}
}
