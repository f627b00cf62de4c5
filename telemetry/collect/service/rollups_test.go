package service_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	view "github.com/weirswitch/weir/telemetry/view/parquet"
)

// coarse is the length of the coarse intervals of the tests, fine that of the fine ones.
const fine, coarse = int64(time.Second), int64(10 * time.Second)

// rollupConfig has such intervals rolled up soon.
const rollupConfig = `[archive.rollups]
fine = "1s"
coarse = "10s"
after = "1s"
prefixes = ["10.0.0.0/28"]
[[link]]
ends = ["s1:p0", "s2:p0"]
`

// rows are those of a roll-up's tables as text, by the beginning of their interval (ns of CLOCK_TAI) and the table.
type rows map[int64]map[string][]string

func (r rows) add(from int64, kind string, values ...any) {
	if r[from] == nil {
		r[from] = map[string][]string{}
	}
	r[from][kind] = append(r[from][kind], fmt.Sprint(values...))
}

func (r rows) sort() rows {
	for _, tables := range r {
		for _, list := range tables {
			slices.Sort(list)
		}
	}
	return r
}

// or0 is what a pointer points to; nil: 0.
func or0(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// readTable reads all files of a table, as any reader of Parquet does.
func readTable[R any](t *testing.T, folder, kind, every string) (list []R) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(folder, "rollups", "kind="+kind, "every="+every), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		more, err := parquet.ReadFile[R](path)
		list = append(list, more...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// rolledUp are all rows of an archive on disk.
func rolledUp(t *testing.T, folder, every string) rows {
	t.Helper()
	all := rows{}
	for _, r := range readTable[struct {
		From       int64    `parquet:"from_ns"`
		Records    uint64   `parquet:"records"`
		Unanswered []string `parquet:"unanswered,list"`
	}](t, folder, "intervals", every) {
		all.add(r.From, "intervals", r.Records > 0)
	}
	for _, r := range readTable[struct {
		From   int64   `parquet:"from_ns"`
		Prefix string  `parquet:"prefix"`
		Name   string  `parquet:"name"`
		Value  float64 `parquet:"value"`
		Low    float64 `parquet:"value_low"`
		High   float64 `parquet:"value_high"`
	}](t, folder, "volume", every) {
		all.add(r.From, "volume", r.Prefix, r.Name, r.Value, r.Low, r.High)
	}
	for _, r := range readTable[struct {
		From  int64   `parquet:"from_ns"`
		Flow  string  `parquet:"flow"`
		Src   *string `parquet:"src,optional"`
		Value float64 `parquet:"value"`
		Share float64 `parquet:"share"`
	}](t, folder, "heavy-hitters", every) {
		all.add(r.From, "heavy-hitters", r.Flow, r.Value, r.Share)
	}
	for _, r := range readTable[struct {
		From    int64     `parquet:"from_ns"`
		Switch  string    `parquet:"switch"`
		Samples uint64    `parquet:"samples"`
		Values  []float64 `parquet:"values,list"`
	}](t, folder, "latency", every) {
		all.add(r.From, "latency", r.Switch, " ", r.Samples, r.Values)
	}
	for _, r := range readTable[struct {
		From    int64    `parquet:"from_ns"`
		Ends    string   `parquet:"from"`
		Other   string   `parquet:"to"`
		Delay   *float64 `parquet:"delay_ns,optional"`
		Packets *float64 `parquet:"packets,optional"`
		Lost    *float64 `parquet:"lost,optional"`
	}](t, folder, "links", every) {
		all.add(r.From, "links", r.Ends, r.Other, or0(r.Delay), or0(r.Packets), or0(r.Lost))
	}
	for _, r := range readTable[struct {
		From    int64  `parquet:"from_ns"`
		Path    string `parquet:"path"`
		Flows   uint64 `parquet:"flows"`
		Certain uint64 `parquet:"certain_flows"`
		Packets uint64 `parquet:"packets"`
	}](t, folder, "paths", every) {
		all.add(r.From, "paths", r.Path, " ", r.Flows, r.Certain, r.Packets)
	}
	for _, r := range readTable[struct {
		From     int64    `parquet:"from_ns"`
		Switch   string   `parquet:"switch"`
		Port     string   `parquet:"port"`
		Received *float64 `parquet:"received_packets_per_second,optional"`
		Sent     *float64 `parquet:"sent_packets_per_second,optional"`
	}](t, folder, "ports", every) {
		all.add(r.From, "ports", r.Switch, r.Port, or0(r.Received), or0(r.Sent))
	}
	return all.sort()
}

// answered are the rows that the answers of a collector about an interval make.
func (b *collectBed) answered(t *testing.T, all rows, from, length int64) {
	t.Helper()
	ask := func(q query.Question) any {
		q.Start, q.End = from, from+length
		a, err := b.client.Ask(t.Context(), &q)
		if err != nil {
			return nil
		}
		return a
	}
	for _, q := range []query.Question{{Kind: query.KindVolume}, {Kind: query.KindCardinality}, {Kind: query.KindEntropy}, {Kind: query.KindVolume, Prefix: "10.0.0.0/28"}} {
		if a := ask(q); a != nil {
			for _, n := range query.Numbers(a) {
				all.add(from, "volume", q.Prefix, n.Name, n.Value, n.Low, n.High)
			}
		}
	}
	if h, ok := ask(query.Question{Kind: query.KindHeavyHitters, Limit: 100}).(*query.HeavyHitters); ok {
		for _, f := range h.Flows {
			all.add(from, "heavy-hitters", f.Flow, f.Value, f.Share)
		}
	}
	if l, ok := ask(query.Question{Kind: query.KindLatency, Quantiles: view.RollupRanks()}).(*query.LatencyAnswer); ok {
		for _, h := range l.Hops {
			var values []float64
			for _, q := range h.Quantiles {
				values = append(values, q.Value)
			}
			all.add(from, "latency", h.Switch, " ", h.Samples, values)
		}
	}
	for _, ends := range [][2]string{{"s1:p0", "s2:p0"}, {"s2:p0", "s1:p0"}} {
		if d, ok := ask(query.Question{Kind: query.KindDelay, From: ends[0], To: ends[1]}).(*query.Between); ok {
			all.add(from, "links", d.From, d.To, d.Delay.Value, d.Packets, d.Lost)
		}
	}
	if p, ok := ask(query.Question{Kind: query.KindPath, Limit: query.MaxLimit}).(*query.PathAnswer); ok {
		type counts struct{ flows, certain, packets uint64 }
		by := map[string]counts{}
		for _, f := range p.Flows {
			var hops []string
			for _, h := range f.Hops {
				if f.Known {
					hops = append(hops, h.Switch)
				}
			}
			c := by[strings.Join(hops, " > ")]
			c.flows, c.packets = c.flows+1, c.packets+f.Packets
			if f.Certain {
				c.certain++
			}
			by[strings.Join(hops, " > ")] = c
		}
		for path, c := range by {
			all.add(from, "paths", path, " ", c.flows, c.certain, c.packets)
		}
	}
	if n, ok := ask(query.Question{Kind: query.KindNetwork}).(*query.Network); ok {
		for _, s := range n.Switches {
			for _, p := range s.Ports {
				all.add(from, "ports", s.Name, p.Name, p.Received.PacketsPS, p.Sent.PacketsPS)
			}
		}
	}
}

// intervals are the beginnings of the coarse intervals that have a part of a window, in ns of CLOCK_TAI.
func intervals(from, to int64) (list []int64) {
	offset := clock.UTCOffset()
	for at := (from-offset)/coarse*coarse + offset; at < to; at += coarse {
		list = append(list, at)
	}
	return list
}

// awaitRollups waits until the coarse and the fine intervals of a window have what a collector answers about them, as a reader of the archive finds it, and each row once.
func awaitRollups(t *testing.T, read func(every string) rows, by *collectBed, from, to int64) {
	t.Helper()
	awaitState(t, "the roll-ups to be the answers", func() (string, bool) {
		for _, length := range []int64{coarse, fine} {
			every := time.Duration(length).String()
			got, want := read(every), rows{}
			for _, at := range intervals(from, to) {
				for begin := at; begin < at+coarse; begin += length {
					by.answered(t, want, begin, length)
					want.add(begin, "intervals", len(want[begin]) > 0)
				}
			}
			want.sort()
			if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
				return fmt.Sprintf("intervals of %s: %v, want %v", every, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))), false
			}
			for at, tables := range want {
				for kind, list := range tables {
					if !reflect.DeepEqual(got[at][kind], list) {
						return fmt.Sprintf("%s of %s at %d:\n got %.1500q\nwant %.1500q", kind, every, at, got[at][kind], list), false
					}
				}
				if len(got[at]) != len(tables) {
					return fmt.Sprintf("at %d: tables %v, want %v", at, got[at], tables), false
				}
			}
		}
		return "", true
	})
}

// rollupBed is a collector with an archive on disk and roll-ups, and a way to send it records.
func rollupBed(t *testing.T) (b *collectBed, folder string, send func(encodedRecord)) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "archive")
	b = newCollectBed(t, "", fmt.Sprintf("[archive]\nurl = %q\nflush = \"1s\"\nrecent = \"1s\"\n", "file://"+folder)+rollupConfig+patient)
	b.start(t)
	spools := map[uint32]func(encodedRecord){}
	return b, folder, func(r encodedRecord) {
		if spools[r.h.Switch] == nil {
			spool, _ := sender(t, jetstream.Options{Servers: []string{"nats://" + b.nats}, Inbox: jetstream.Acks(r.h.Switch)})
			spools[r.h.Switch] = func(r encodedRecord) {
				if err := spool.Write(r.h, r.body); err != nil {
					t.Error(err)
				}
			}
		}
		spools[r.h.Switch](r)
	}
}

// TestRollups: intervals have in the roll-ups what the collector answers about them, those of records that came late too, and none is made twice by a collector that starts.
func TestRollups(t *testing.T) {
	b, folder, send := rollupBed(t)
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	for _, r := range withStatus(t, base) {
		send(r)
	}
	read := func(every string) rows { return rolledUp(t, folder, every) }
	awaitRollups(t, read, b, base, base+setEpochs*setEpoch)
	made := len(read("10s"))
	before := b.metric(t, "weir_collect_archive_rolled_up_again_total")
	d := &digests{sw: 2, base: base}
	h, encoded := d.batch(t)
	send(encodedRecord{h, encoded})
	awaitState(t, "late records to be rolled up", func() (string, bool) {
		n := b.metric(t, "weir_collect_archive_rolled_up_again_total")
		return fmt.Sprint(n), n > before
	})
	awaitRollups(t, read, b, base, base+setEpochs*setEpoch)
	b.kill()
	b.start(t)
	awaitState(t, "roll-ups to be found", func() (string, bool) {
		n := b.metric(t, "weir_collect_archive_rollups")
		return fmt.Sprint(n), n == float64(made)
	})
	awaitRollups(t, read, b, base, base+setEpochs*setEpoch)
	if n := b.metric(t, "weir_collect_archive_rolled_up_total"); n != 0 {
		t.Errorf("%v intervals are rolled up again after a restart", n)
	}
	b.stop(t)
}

// TestRollupsWithPaths: intervals in which a switch that the file of paths names sent nothing are rolled up without that file, and say so.
func TestRollupsWithPaths(t *testing.T) {
	b, folder, send := rollupBed(t)
	b.kill()
	paths := filepath.Join(b.dir, "paths.json")
	if err := os.WriteFile(paths, []byte(`[{"switches": ["absent"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.replaceIn(t, "[collect]\n", fmt.Sprintf("[collect]\npaths = %q\n", paths))
	b.start(t)
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	for _, r := range withStatus(t, base) {
		send(r)
	}
	awaitState(t, "an interval that says what it lacks", func() (string, bool) {
		list := readTable[struct {
			Records    uint64   `parquet:"records"`
			Unanswered []string `parquet:"unanswered,list"`
		}](t, folder, "intervals", time.Duration(fine).String())
		for _, r := range list {
			if r.Records > 0 && len(r.Unanswered) > 0 && strings.Contains(r.Unanswered[0], `"absent" sent no records`) {
				return "", true
			}
		}
		return fmt.Sprint(list), false
	})
	if code, text := b.readyz(t); code != http.StatusOK {
		t.Errorf("/readyz: %d, %s", code, text)
	}
	b.stop(t)
}

// TestFaultRollups kills collectors of a set while they roll up, and removes the marks of what they made: in the end each interval has its rows once, as one collector answers
// that has all records.
func TestFaultRollups(t *testing.T) {
	rounds := faultRounds(t)
	folder := filepath.Join(t.TempDir(), "archive")
	b := newSetBed(t, 2)
	for range 2 {
		b.join(t, fmt.Sprintf("share = true\n[archive]\nurl = %q\nflush = \"1s\"\nrecent = \"1s\"\n", "file://"+folder)+rollupConfig)
	}
	base := (clock.Kernel.TAI() - int64(5*time.Minute)) / setEpoch * setEpoch
	for _, r := range withStatus(t, base) {
		b.send(t, r)
	}
	read := func(every string) rows { return rolledUp(t, folder, every) }
	r := rand.New(rand.NewPCG(7, 2))
	for i := range rounds {
		awaitState(t, "a roll-up", func() (string, bool) {
			return "", len(readTable[struct {
				From int64 `parquet:"from_ns"`
			}](t, folder, "intervals", "10s")) > 0
		})
		m := b.members[i%2]
		time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
		m.kill()
		marks, err := filepath.Glob(filepath.Join(folder, "rollups", "kind=intervals", "every=10s", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range marks {
			if err := os.Remove(mark); err != nil {
				t.Fatal(err)
			}
		}
		b.members[1-i%2].kill() // which knows what it has made
		b.members[1-i%2].start(t)
		m.start(t)
	}
	awaitRollups(t, read, b.one, base, base+setEpochs*setEpoch)
	for _, m := range append(b.members, b.one) {
		m.stop(t)
	}
	if left, err := filepath.Glob(filepath.Join(folder, ".staging", "*", "*")); err != nil || len(left) != 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
}
