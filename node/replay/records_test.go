package replay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
)

// samplingSwitch is a switch of two ports that samples few packets of many, with
// epochs far shorter than the capture.
const samplingSwitch = `[switch]
name = "one"
id = 9
graph = ["parse", "oblivious", "patch"]
[[port]]
name = "p0"
interface = "eth0"
[[port]]
name = "p1"
interface = "eth1"
[stages.patch]
pairs = [["p0", "p1"]]
[stages.oblivious]
size = 50
epoch_bits = 26
flows = true
`

// holds reports whether an estimate's bounds have a number. A single switch's own total narrows the upper one.
func holds(e query.Bounded, n uint64) bool { return e.Low <= float64(n) && float64(n) <= e.High }

// TestChainRecords: each switch of a chain writes its own records, which
// hold what those of a switch alone do, though packets carry digests between them; and
// together they count each packet once.
func TestChainRecords(t *testing.T) {
	capture := pcaptest.Flows(t, 4000)
	for _, c := range []struct{ name, config string }{
		{"plain", samplingSwitch},
		{"pint", strings.Replace(samplingSwitch, `"patch"]`, `"patch", "pint"]`, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone, chained := t.TempDir(), t.TempDir()
			for folder, switches := range map[string]int{alone: 1, chained: 3} {
				chain := captures(capture, "")
				chain.Switch, chain.Chain, chain.Records = parsed(t, c.config), switches, folder
				if _, err := run(t, chain); err != nil {
					t.Fatal(err)
				}
			}
			single, all := readStore(t, alone), readStore(t, chained)
			if names := all.Switches(); !slices.Equal(names, []string{"s1", "s2", "s3"}) {
				t.Fatalf("records of %v", names)
			}
			if len(single.Samples) < 10 || len(all.Samples) != 3*len(single.Samples) {
				t.Fatalf("%d samples of a chain of 3, %d of one switch", len(all.Samples), len(single.Samples))
			}
			for _, s := range all.Samples {
				at := slices.IndexFunc(single.Samples, func(o *store.Sample) bool { return o.From == s.From && o.Instance == s.Instance })
				if at < 0 || !sameSample(s.Sample, single.Samples[at].Sample) {
					t.Fatalf("switch %d, epoch at %d, instance %d: not the sample of a single switch", s.Switch, s.From, s.Instance)
				}
			}
			a, errA := (&query.Engine{Store: single}).Volume(nil)
			b, errB := (&query.Engine{Store: all}).Volume(nil)
			if errA != nil || errB != nil || !holds(a.Packets, b.NaivePackets/3) || !holds(b.Packets, b.NaivePackets/3) || a.Packets.Low != b.Packets.Low || a.Bytes.Low != b.Bytes.Low || b.NaivePackets != 3*a.NaivePackets || a.Packets.Low == a.Packets.High {
				t.Errorf("volume %+v %+v %d, %v of the chain, %+v %+v %d, %v of one switch", b.Packets, b.Bytes, b.NaivePackets, errB, a.Packets, a.Bytes, a.NaivePackets, errA)
			}
		})
	}
}

func readStore(t *testing.T, folder string) *store.Store {
	t.Helper()
	s, err := store.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Counts(); c.Records == 0 || c.Unreadable+c.Conflicts+c.Duplicates != 0 {
		t.Fatalf("%+v", c)
	}
	return s
}

func sameSample(a, b *oblivious.Sample) bool {
	return a.Threshold == b.Threshold && a.Packets == b.Packets && slices.Equal(a.Entries, b.Entries)
}

// TestRecordsDropped: a spool that is too small for a replay's records is an error,
// since nobody else would see that the first are gone.
func TestRecordsDropped(t *testing.T) {
	big := strings.Replace(samplingSwitch, "size = 50", "size = 20_000", 1)
	small := strings.Replace(big, "[stages.oblivious]", "[telemetry]\nspool_bytes = 1_048_576\nspool = \"/nonexistent/spool\"\n[stages.oblivious]", 1)
	small = strings.Replace(small, "epoch_bits = 26", "epoch_bits = 24\nkey = \"5-tuple\"", 1)
	capture := pcaptest.Flows(t, 40_000)
	for _, c := range []struct {
		config, says string
	}{{big, "<nil>"}, {small, "spool_bytes"}} {
		chain := captures(capture, "")
		chain.Switch, chain.Chain, chain.Records = parsed(t, c.config), 2, t.TempDir()
		if _, err := run(t, chain); !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%v, want %s", err, c.says)
		}
	}
}
