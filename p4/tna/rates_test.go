package tna_test

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// rows is how many of them the points have on this target.
const rows = 2

// sampler is one row's decision, as lds_rates makes it: a CRC of front, u and v that begins with
// zeros and is not complemented, compared with the limit.
type sampler struct {
	table   *crc32.Table
	front   uint32
	compare string
}

func (s *sampler) samples(u, v, limit uint32) bool {
	m := binary.BigEndian.AppendUint32(nil, s.front)
	m = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(m, u), v)
	half := ^crc32.Update(^uint32(0), s.table, m)
	switch s.compare {
	case "<":
		return half < limit
	case "<=":
		return half <= limit
	case ">":
		return half > limit
	}
	return half >= limit
}

// find is what the groups of an expression are in a text that has it as often as told.
func find(t *testing.T, text, expression string, times int) []string {
	t.Helper()
	found := regexp.MustCompile(expression).FindAllStringSubmatch(text, -1)
	if len(found) != times {
		t.Fatalf("%d times %s, want %d", len(found), expression, times)
	}
	return found[0][1:]
}

// samplers reads the rows' decisions from lds_control.p4, and what words they begin with
// from linear.p4.
func samplers(t *testing.T) (s [rows]sampler) {
	t.Helper()
	text, linear := source(t, "lds_control.p4"), source(t, "linear.p4")
	_, control, _ := strings.Cut(text, "control lds_rates(")
	control, _, _ = strings.Cut(control, "\n}\n")
	for r, row := range []string{"0", "1"} {
		operand := find(t, control, `action sample`+row+`\(\) \{\s+(\w+) = (\w+)\.get\(\{ (\w+), u, v \}\);\s+`+
			`sampled`+row+` = samples`+row+`\.execute\(0\);`, 1)
		compared := find(t, control, `\(limit`+row+`\) samples`+row+` = \{\s+void apply\(inout bit<32> limit, out bit<1> sampled\) \{\s+`+
			`sampled = 0;\s+if \((\w+) ([<>]=?) limit\) \{\s+sampled = 1;\s+\}\s+\}`, 1)
		if compared[0] != operand[0] {
			t.Fatalf("row %s compares %s, and its hash is %s", row, compared[0], operand[0])
		}
		kind := find(t, control, `LINEAR_(CRC32C?)_OF\(`+operand[1]+`\)`, 1)[0]
		s[r] = sampler{table: polynomials[0], compare: compared[1],
			front: uint32(number(t, linear, find(t, text, `\b`+operand[2]+` = (IN_FRONT_OF_\w+);`, 1)[0]))}
		if kind == "CRC32C" {
			s[r].table = polynomials[1]
		}
		// Both sides ask what was decided where the packet arrived, of each half of a cell.
		for _, half := range []string{"lengths", "digests"} {
			find(t, text, `if \(lds\.sampled`+row+` == 1\) \{\s+`+half+row+`\.apply\(point, bank, lds\.column`+row+`,`, 2)
			find(t, text, half+row+`\.apply\(`, 2)
		}
	}
	find(t, control, `Register<bit<32>, bit<1>>\(1, 0xffffffff\) limit[01];`, rows)
	find(t, text, `packets\.count\(point \+\+ bank\);`, 2)
	find(t, text, `rates\.apply\(u, v, before_high, before_low, lds\.sampled0, lds\.sampled1\);`, 1)
	// Whatever they sample, packets are counted.
	find(t, text, `if \(measured == 1 && lds\.measured == 1\) \{\s+tallies\.apply\(\);`, 2)
	return s
}

// limit is what a control plane writes for a rate.
func limit(rate float64) uint32 { return uint32(uint64(rate*(1<<32)) - 1) }

// TestRates compares the cells of rows that sample, and the count of packets, with those of
// telemetry/lds.
func TestRates(t *testing.T) {
	const seed = 9
	s := samplers(t)
	r := rand.New(rand.NewPCG(11, 12))
	key := hash.Key(seed + 0x6c6473_0200) // packetSeed of telemetry/lds
	sums := func(id uint64) (u, v uint32) {
		first := crcs(id)
		v = first[1] + uint32(key)
		return first[0] + uint32(key>>32) + v, v
	}
	run := func(ids []uint64, rates []float64) (sampled [rows]uint64) {
		t.Helper()
		p, err := lds.NewPoint(lds.Config{Rows: rows, Columns: 1, Virtual: 1, Rates: rates, IntervalNs: interval, Seed: seed, Hash: hash.CRC})
		if err != nil {
			t.Fatal(err)
		}
		var after [rows]registers
		for _, id := range ids {
			at, bytes := r.Int64N(2*interval)-interval/2, 60+r.Uint32N(9000)
			p.Add(0, id, at, bytes)
			u, v := sums(id)
			for row := range after {
				if s[row].samples(u, v, limit(rates[row])) {
					after[row].add(uint32(at+interval/2), bytes, hash.CRC.Uint64(seed+0x6c6473_0200, id))
				}
			}
		}
		for row := range after {
			got, want := cell(&registers{}, &after[row]), p.Cell(row, 0)
			if got != want {
				t.Fatalf("rates %v: row %d has %+v, want %+v", rates, row, got, want)
			}
			sampled[row] = got.Count
		}
		if p.Packets() != uint64(len(ids)) {
			t.Fatalf("rates %v: %d packets, of %d: the target's counter has all", rates, p.Packets(), len(ids))
		}
		return sampled
	}

	ids := make([]uint64, 4000)
	for i := range ids {
		ids[i] = r.Uint64()
	}
	all := uint64(len(ids))
	if got := run(ids, []float64{1, 1}); got != [rows]uint64{all, all} {
		t.Errorf("rates of 1 sample %d of %d packets", got, all)
	}
	for _, rates := range [][]float64{{1, 0.5}, {0.5, 1}, {0.01, 0.9}, {0.75, 0.001}, {lds.MinRate, 1}, {1, lds.MinRate}} {
		run(ids, rates)
	}
	// A digest's half is the limit, or one above it.
	for _, id := range ids[:200] {
		digest := hash.CRC.Uint64(seed+0x6c6473_0200, id)
		high, low := float64(digest>>32), float64(uint32(digest))
		if min(high, low) < 1<<13 {
			continue // below MinRate
		}
		at := []float64{(high + 1) / (1 << 32), (low + 1) / (1 << 32)}
		below := []float64{high / (1 << 32), low / (1 << 32)}
		if got := run([]uint64{id}, at); got != [rows]uint64{1, 1} {
			t.Fatalf("id %#x, rates %v: sampled %v", id, at, got)
		}
		if got := run([]uint64{id}, below); got != [rows]uint64{} {
			t.Fatalf("id %#x, rates %v: sampled %v", id, below, got)
		}
	}
}

// TestSampleLimit holds what oblivious.p4 and weir.p4 admit to the sample against ranks of
// the family: those up to a limit, whose low half is all ones.
func TestSampleLimit(t *testing.T) {
	linear, shared := source(t, "linear.p4"), source(t, "sample.p4")
	r := rand.New(rand.NewPCG(13, 14))
	for _, name := range []string{"oblivious_control.p4", "../weir.p4"} {
		text := source(t, name)
		find(t, text, `rank = rank_hash\.get\(\{ in_front, (?:md\.rank_)?u, (?:md\.rank_)?v \}\);\s+\S+ = admits\.execute\(0\);`, 1)
		s := sampler{table: polynomials[0],
			front:   uint32(number(t, linear, find(t, text, `\bin_front = (IN_FRONT_OF_\w+);`, 1)[0])),
			compare: find(t, shared, `admitted = 0;[\s\\]+if \(rank ([<>]=?) value\) \{[\s\\]+admitted = type;[\s\\]+\}`, 1)[0]}
		find(t, text, `SAMPLE_LIMIT\(rank, (?:1|MIRROR_SAMPLE)\)`, 1)
		find(t, text, `LINEAR_CRC32_OF\(rank_hash\)`, 1)
		for range 1000 {
			seed, id := r.Uint64(), r.Uint64()
			first, key, rank := crcs(id), hash.Key(seed), hash.CRC.Uint64(seed, id)
			v := first[1] + uint32(key)
			u := first[0] + uint32(key>>32) + v
			at := uint32(rank >> 32)
			for _, limit := range []uint32{at, at - 1, at + 1, r.Uint32(), 0, 1<<32 - 1} {
				if got, want := s.samples(u, v, limit), rank <= uint64(limit)<<32|(1<<32-1); got != want {
					t.Fatalf("%s: rank %#x, limit %#x: admitted %v, want %v", name, rank, limit, got, want)
				}
			}
		}
	}
}
