package pint

import (
	"cmp"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var updateDigests = flag.Bool("update-digests", false, "write the golden files of digests")

// randomFlow is a flow of any kind: few of them, so that they repeat.
func randomFlow(r *rand.Rand, of int) (k FlowKey) {
	i := r.IntN(of)
	k = FlowKey{SrcPort: uint16(i), DstPort: 443, Proto: 6, Version: 4}
	k.Src[0], k.Dst[3] = 10, byte(i)
	switch i % 5 {
	case 0:
		k.Version, k.Src[15] = 6, byte(i)
	case 1:
		k = FlowKey{DstPort: 0x88cc}
		k.Src[5] = byte(i)
	case 2:
		k.Src[9] = 1 // of version 4, with something behind the address
	}
	return k
}

func randomBatch(r *rand.Rand, n int) *DigestBatch {
	b := &DigestBatch{Boot: r.Uint64(), Sequence: r.Uint64(), Sent: r.Uint64(), Loop: r.IntN(2) == 0, Plan: uint16(r.Uint32())}
	begin, span, digest := r.Uint64()>>uint(1+r.IntN(60)), r.Uint64()>>uint(2+r.IntN(62)), ^uint64(0)>>uint(r.IntN(65))
	for range n {
		b.Records = append(b.Records, Record{
			Flow: randomFlow(r, 1+n/3), ID: r.Uint64(), Digest: r.Uint64() & digest, TimeNs: begin + r.Uint64N(span+1),
			Plan: b.Plan, Hops: uint8(r.Uint32()),
		})
	}
	return b
}

// slowOrder is the order in which a batch keeps its records, by a stable sort.
func slowOrder(all []Record) []Record {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Record) int {
		if s := a.Flow.short(); s != b.Flow.short() {
			if s {
				return -1
			}
			return 1
		}
		return cmp.Or(slices.Compare(a.Flow.Src[:], b.Flow.Src[:]), slices.Compare(a.Flow.Dst[:], b.Flow.Dst[:]),
			cmp.Compare(a.Flow.SrcPort, b.Flow.SrcPort), cmp.Compare(a.Flow.DstPort, b.Flow.DstPort),
			cmp.Compare(a.Flow.Proto, b.Flow.Proto), cmp.Compare(a.Flow.Version, b.Flow.Version))
	})
	return all
}

func TestDigestsTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var decoded DigestBatch
	for round := range 400 {
		b := randomBatch(r, r.IntN(1+round))
		body := AppendDigests([]byte("before"), b)[6:]
		if err := DecodeDigests(body, &decoded); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		want := slowOrder(b.Records)
		if !slices.Equal(decoded.Records, want) {
			t.Fatalf("round %d: %d records are not those that went in", round, len(want))
		}
		if decoded.Boot != b.Boot || decoded.Sequence != b.Sequence || decoded.Sent != b.Sent || decoded.Loop != b.Loop || decoded.Plan != b.Plan {
			t.Fatalf("round %d: %+v of %+v", round, decoded, b)
		}
		checkView(t, body, want)
	}
}

// checkView compares what a view finds of each flow with all records.
func checkView(t *testing.T, body []byte, all []Record) {
	t.Helper()
	d, err := CheckDigests(body)
	if err != nil || d.Len() != len(all) || d.Bytes() != len(body) {
		t.Fatalf("%d digests of %d: %v", d.Len(), len(all), err)
	}
	byFlow := map[FlowKey][]Record{}
	first, last := ^uint64(0), uint64(0)
	for _, o := range all {
		byFlow[o.Flow] = append(byFlow[o.Flow], o)
		first, last = min(first, o.TimeNs), max(last, o.TimeNs)
	}
	if f, l := d.Times(); len(all) > 0 && (f != first || l != last) {
		t.Fatalf("times %d to %d, not %d to %d", f, l, first, last)
	}
	for flow, want := range byFlow {
		i, ok := d.Find(&flow)
		if !ok || !slices.Equal(d.AppendFlow(nil, i), want) || d.Count(i) != len(want) {
			t.Fatalf("flow %+v: found %t", flow, ok)
		}
		flow.Dst[2] ^= 0x80
		if _, ok := d.Find(&flow); ok {
			t.Fatalf("flow %+v is not in the batch", flow)
		}
	}
	n := 0
	for flow, run := range d.All() {
		if !slices.Equal(run, byFlow[flow]) {
			t.Fatalf("flow %+v: %d digests", flow, len(run))
		}
		n += len(run)
	}
	if n != len(all) || d.Flows() != len(byFlow) {
		t.Fatalf("%d digests of %d flows, not %d of %d", n, d.Flows(), len(all), len(byFlow))
	}
}

// TestDigestsGolden: the format stays.
func TestDigestsGolden(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	file := filepath.Join("testdata", "digests-v1.bin")
	body := AppendDigests(nil, randomBatch(r, 40))
	if *updateDigests {
		if err := os.WriteFile(file, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(body, want) {
		t.Errorf("a batch of %d bytes differs from the golden file's %d", len(body), len(want))
	}
	flow := FlowKey{Src: [16]byte{10, 1, 2, 3}, Dst: [16]byte{10, 4, 5, 6}, SrcPort: 1234, DstPort: 443, Proto: 6, Version: 4}
	if p := flow.Partition(16); p != 3 {
		t.Errorf("the partition of a flow is %d", p)
	}
}

// TestDigestsRefuses: no changed byte gives a batch that would not be written so, and no
// cut one is read.
func TestDigestsRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	body := AppendDigests(nil, randomBatch(r, 30))
	for n := range body {
		if err := DecodeDigests(body[:n], new(DigestBatch)); !errors.Is(err, ErrDigests) {
			t.Fatalf("%d of %d bytes: %v", n, len(body), err)
		}
	}
	for range 3000 {
		b := slices.Clone(body)
		b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		checkCanonical(t, b)
	}
}

func checkCanonical(t *testing.T, body []byte) {
	t.Helper()
	b := DigestBatch{Boot: 1}
	if err := DecodeDigests(body, &b); err != nil {
		if !errors.Is(err, ErrDigests) || b.Boot != 1 {
			t.Fatalf("%v", err)
		}
		return
	}
	if again := AppendDigests(nil, &b); !slices.Equal(again, body) {
		t.Fatalf("read and written again:\n%x\nbefore:\n%x", again, body)
	}
}

func FuzzDigests(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 5, 40} {
		f.Add(AppendDigests(nil, randomBatch(r, n)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		checkCanonical(t, body)
		if d, err := CheckDigests(body); err == nil {
			var all []Record
			for _, run := range d.All() {
				all = append(all, run...)
			}
			checkView(t, body, all)
		}
	})
}

// FuzzDigestsTwin makes batches of a seed.
func FuzzDigestsTwin(f *testing.F) {
	f.Add(uint64(1), 100)
	f.Fuzz(func(t *testing.T, seed uint64, n int) {
		b := randomBatch(rand.New(rand.NewPCG(seed, 9)), min(max(n, 0), 2000))
		checkView(t, AppendDigests(nil, b), slowOrder(b.Records))
	})
}

func BenchmarkAppendDigests(b *testing.B) {
	for _, flows := range []int{16, 1000, 1 << 16} {
		batch := benchBatch(4096, flows)
		var body []byte
		b.Run(flowsName(flows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				body = AppendDigests(body[:0], batch)
			}
			b.ReportMetric(float64(len(body))/4096, "bytes/digest")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/digest")
		})
	}
}

func BenchmarkCheckDigests(b *testing.B) {
	for _, flows := range []int{16, 1000, 1 << 16} {
		body := AppendDigests(nil, benchBatch(4096, flows))
		b.Run(flowsName(flows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := CheckDigests(body); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/digest")
		})
	}
}

func flowsName(n int) string {
	return map[int]string{16: "flows=16", 1000: "flows=1000", 1 << 16: "flows=65536"}[n]
}

// benchBatch is what a sink of usual flows sends: two bytes each, within a slice.
func benchBatch(n, flows int) *DigestBatch {
	r := rand.New(rand.NewPCG(1, 1))
	b := &DigestBatch{Plan: 1}
	for range n {
		k := FlowKey{Version: 4, Proto: 6, DstPort: 443, SrcPort: uint16(r.IntN(flows))}
		k.Src[0], k.Dst[0] = 10, 10
		b.Records = append(b.Records, Record{Flow: k, ID: r.Uint64(), Digest: r.Uint64() & 0xffff, TimeNs: 1<<60 + r.Uint64N(1<<30), Plan: 1, Hops: 5})
	}
	return b
}
