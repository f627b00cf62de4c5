package replay_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/store"
)

// TestDigests: the sink of a chain writes each packet's digest into its records, once,
// from which a reader decodes the flows' paths; the same capture makes the same records.
func TestDigests(t *testing.T) {
	const packets = 4000
	capture := pcaptest.Flows(t, packets)
	c := captures(capture, "")
	c.Switch = parsed(t, strings.Replace(samplingSwitch, `"patch"]`, `"patch", "pint"]`, 1))
	c.Chain, c.Records = 3, t.TempDir()
	for range 2 { // The second time all of it is there already.
		if _, err := run(t, c); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Read(c.Records)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Counts(); c.Unreadable+c.Conflicts+c.Unknown != 0 || c.Duplicates != c.Records {
		t.Fatalf("%+v", c)
	}
	plan := pintplan.Default()
	n := 0
	for i := range s.Batches {
		if b := s.Batches[i]; b.Name != "s3" || b.Plan != plan.ID || b.Missed != 0 {
			t.Fatalf("%+v: %d digests of plan %d", b.Origin, b.Len(), b.Plan)
		}
		n += s.Batches[i].Len()
	}
	if n != packets || len(s.Missing(store.OfDigests, s.All())) != 0 {
		t.Fatalf("%d digests of %d packets, missing %+v", n, packets, s.Missing(store.OfDigests, s.All()))
	}
	path := plan.Queries[slices.IndexFunc(plan.Queries, func(q pint.Query) bool { return q.Aggregation == pint.Path })].Name
	r, err := sink.NewRecorder(plan, sink.RecorderConfig{Decoders: map[string]sink.DecoderConfig{path: {Values: []uint64{1, 2, 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	flows := s.Flows(plan.ID)
	if len(flows) != 60 {
		t.Fatalf("%d flows", len(flows))
	}
	for _, f := range flows {
		digests := s.Digests(f.Key, plan.ID)
		if !slices.IsSortedFunc(digests, func(a, b pint.Record) int { return int(int64(a.TimeNs - b.TimeNs)) }) {
			t.Errorf("digests of %+v are not in the order of time", f.Key)
		}
		r.RecordBatch(digests)
		if a, ok := r.Path(path, f.Key); !ok || !a.Certain || !slices.Equal(a.Path, []uint64{1, 2, 3}) || a.Packets == 0 {
			t.Errorf("%+v", a)
		}
	}
}
