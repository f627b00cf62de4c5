package pcapfile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// record is a packet read or to be written.
type record struct {
	Header
	data []byte
}

// readAll reads to the end or the first fault; nil means the proper end.
func readAll(r *Reader) ([]record, error) {
	var out []record
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		// Not made at once: a record may claim more than there is.
		var buf bytes.Buffer
		for left := int(h.CapLen); left > 0; {
			piece := make([]byte, min(left, 64<<10))
			if err := r.Read(piece); err != nil {
				return out, err
			}
			buf.Write(piece)
			left -= len(piece)
		}
		out = append(out, record{h, buf.Bytes()})
	}
}

func readBytes(file []byte) ([]record, *Reader, error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, nil, err
	}
	records, err := readAll(r)
	return records, r, err
}

// captures lists the shared captures of a folder, or skips.
func captures(t testing.TB, folder string) []string {
	t.Helper()
	shared := os.Getenv("WEIR_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	files, _ := filepath.Glob(filepath.Join(shared, "data", folder, "*.pcap*"))
	if len(files) == 0 {
		t.Skipf("no captures in %s: set WEIR_SHARED to the folder that holds data/%s", shared, folder)
	}
	return files
}

func randomRecords(rng *rand.Rand, n int) []record {
	rs := make([]record, n)
	for i := range rs {
		data := make([]byte, rng.IntN(200)*rng.IntN(20))
		for k := range data {
			data[k] = byte(rng.Uint32())
		}
		rs[i] = record{Header{
			Time:   int64(rng.Uint32())*1e9 + int64(rng.IntN(1e9)),
			CapLen: uint32(len(data)), WireLen: uint32(len(data) + rng.IntN(3)*rng.IntN(2000)), LinkType: Ethernet,
		}, data}
	}
	return rs
}

func writeAll(t testing.TB, f Format, interfaces []string, rs []record) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, f, interfaces...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		if err := w.WriteHeader(r.Header); err != nil {
			t.Fatal(err)
		}
		// In two pieces, as a packet of two frames is written.
		for _, piece := range [][]byte{r.data[:len(r.data)/3], r.data[len(r.data)/3:]} {
			if _, err := w.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
	}
	return buf.Bytes()
}

func compare(t *testing.T, got, want []record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Header != want[i].Header || !bytes.Equal(got[i].data, want[i].data) {
			t.Fatalf("record %d: %+v with %.40x, want %+v with %.40x", i, got[i].Header, got[i].data, want[i].Header, want[i].data)
		}
	}
}

var formats = []Format{
	{LinkField: 1, SnapLen: 65535},
	{LinkField: 1, SnapLen: 65535, BigEndian: true},
	{LinkField: 1, SnapLen: 262144, Nano: true},
	{LinkField: 0x24000001, SnapLen: 9000, Nano: true, BigEndian: true, Zone: 3600, SigFigs: 7},
	{NG: true, Nano: true, LinkField: 1},
	{NG: true, Nano: true, LinkField: 1, BigEndian: true},
}

// TestRoundTrip writes random packets in each format and reads them again,
// plain and compressed, with our reader and with pcapgo.
func TestRoundTrip(t *testing.T) {
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			want := randomRecords(rand.New(rand.NewPCG(1, 2)), 300)
			var names []string
			for i := range want {
				if f.NG {
					names = []string{"a", "bcd", ""}
					want[i].Interface = uint32(i % len(names))
				}
				if !f.Nano {
					want[i].Time -= want[i].Time % 1000
				}
			}
			file := writeAll(t, f, names, want)
			got, r, err := readBytes(file)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, got, want)
			if r.Format() != f {
				t.Errorf("format %+v, want %+v", r.Format(), f)
			}
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			_, _ = z.Write(file)
			z.Close()
			if got, _, err = readBytes(zipped.Bytes()); err != nil {
				t.Fatal(err)
			}
			compare(t, got, want)
			second, err := readWithPcapgo(file)
			if err != nil {
				t.Fatalf("pcapgo: %v", err)
			}
			for i := range second {
				second[i].LinkType = Ethernet
			}
			if f.LinkField == 1 { // pcapgo knows no frame check sequence
				compare(t, second, want)
			}
		})
	}
}

// readWithPcapgo is the second opinion. Its panics on hostile files are
// returned as errors.
func readWithPcapgo(file []byte) (out []record, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("panic")
		}
	}()
	add := func(data []byte, t int64, wire, iface int, link layers.LinkType) {
		out = append(out, record{Header{t, uint32(len(data)), uint32(wire), uint32(iface), LinkType(link)}, data})
	}
	if len(file) >= 4 && binary.LittleEndian.Uint32(file) == magicNG {
		r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		if err != nil {
			return nil, err
		}
		for {
			data, ci, err := r.ReadPacketData()
			if err == io.EOF {
				return out, nil
			}
			if err != nil {
				return out, err
			}
			ns := int64(0)
			if !ci.Timestamp.IsZero() {
				ns = ci.Timestamp.UnixNano()
			}
			add(data, ns, ci.Length, ci.InterfaceIndex, ci.AncillaryData[0].(layers.LinkType))
		}
	}
	r, err := pcapgo.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	for {
		data, ci, err := r.ReadPacketData()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		add(data, ci.Timestamp.UnixNano(), ci.Length, 0, r.LinkType())
	}
}

// TestAgainstPcapgo reads every shared capture. Where pcapgo reads a file to
// its end, every record must be the same but for two faults of pcapgo: its link
// types have 8 bits, and it multiplies microseconds in 32 bits.
func TestAgainstPcapgo(t *testing.T) {
	files := append(captures(t, "malformed"), captures(t, "traces")...)
	agreed := 0
	for _, path := range files {
		file := gunzipped(t, path)
		if len(file) > 8<<20 && testing.Short() {
			continue
		}
		want, errTwin := readWithPcapgo(file)
		if errTwin != nil {
			continue
		}
		got, _, err := readBytes(file)
		if err != nil {
			t.Errorf("%s: pcapgo reads %d records, we fail: %v", path, len(want), err)
			continue
		}
		for i := range min(len(want), len(got)) {
			if (want[i].Time-got[i].Time)%(1<<32) == 0 {
				want[i].Time = got[i].Time
			}
			got[i].LinkType &= 0xff
		}
		t.Run(filepath.Base(path), func(t *testing.T) { compare(t, got, want) })
		agreed++
	}
	if agreed < len(files)*3/4 {
		t.Errorf("only %d of %d files compared", agreed, len(files))
	}
}

func gunzipped(t testing.TB, path string) []byte {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(path, ".gz") {
		return file
	}
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// TestEveryPrefix cuts a capture at every byte: the records before the cut
// are read, and only a cut between two records passes for the end.
func TestEveryPrefix(t *testing.T) {
	for _, f := range formats {
		want := randomRecords(rand.New(rand.NewPCG(3, 4)), 5)
		for i := range want {
			want[i].data = want[i].data[:min(len(want[i].data), 90)]
			want[i].CapLen = uint32(len(want[i].data))
			if !f.Nano {
				want[i].Time -= want[i].Time % 1000
			}
		}
		file := writeAll(t, f, []string{"p0"}, want)
		for cut := range file {
			got, r, err := readBytes(file[:cut])
			if len(got) == len(want) && !f.NG {
				t.Fatalf("%v: %d records of a file cut at %d", f, len(got), cut)
			}
			compare(t, got, want[:len(got)])
			if r == nil {
				if !errors.Is(err, ErrFormat) {
					t.Fatalf("%v: cut at %d: %v, want ErrFormat", f, cut, err)
				}
				continue
			}
			whole := writeAll(t, f, []string{"p0"}, want[:len(got)])
			boundary := cut == len(whole) || f.NG && cut == 28
			if boundary != (err == nil) || !boundary && !errors.Is(err, ErrTruncated) {
				t.Fatalf("%v: cut at %d behind %d records: error %v", f, cut, len(got), err)
			}
		}
	}
}

// block makes a little-endian pcapng block whose lengths are right.
func block(kind uint32, body ...byte) []byte {
	n := uint32(12 + len(body))
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, n)
	b = append(b, body...)
	return binary.LittleEndian.AppendUint32(b, n)
}

func le32(words ...uint32) []byte {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

var (
	section    = block(magicNG, le32(magicOrder, 1, math.MaxUint32, math.MaxUint32)...)
	ethernet   = block(blockInterface, le32(1, 0)...)
	goodPacket = block(blockEnhanced, le32(0, 0, 7, 4, 60, 0xddccbbaa)...)
	pcapHead   = le32(magicMicro, 0x00040002, 0, 0, math.MaxUint32, 1)
)

// TestHostile feeds files made to break readers. Each must give the stated
// number of records and the stated error, without memory for what it claims.
func TestHostile(t *testing.T) {
	for _, tc := range []struct {
		name    string
		file    []byte
		records int
		want    error
	}{
		{"nothing", nil, 0, ErrFormat},
		{"text", []byte("StatsTime"), 0, ErrFormat},
		{"gzip of nothing", []byte{0x1f, 0x8b}, 0, ErrFormat},
		{"gzip of garbage", []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 0, ErrCorrupt},
		{"record of 4 GiB", join(pcapHead, le32(0, 0, math.MaxUint32, math.MaxUint32)), 0, ErrTruncated},
		{"record beyond the limit", join(le32(magicMicro, 0x00040002, 0, 0, 100, 1), le32(0, 0, 1<<20, 1<<20), make([]byte, 1<<20)), 0, ErrCorrupt},
		{"record beyond its snap length", join(le32(magicMicro, 0x00040002, 0, 0, 2, 1), le32(0, 0, 4, 4, 1)), 1, nil},
		{"record longer than its packet", join(pcapHead, le32(0, 0, 4, 2, 1)), 1, nil},
		{"version 2.5", le32(magicMicro, 0x00050002, 0, 0, 0, 1), 0, ErrFormat},
		{"modified header", join(le32(magicModified, 0x00040002, 0, 0, 96, 1), le32(1, 2, 4, 60, 3, 0, 5)), 1, nil},
		{"version 2.2, lengths swapped", join(le32(magicMicro, 0x00020002, 0, 0, 96, 1), le32(1, 2, 60, 4, 5)), 1, nil},
		{"version 2.3, lengths swapped", join(le32(magicMicro, 0x00030002, 0, 0, 96, 1), le32(1, 2, 60, 4, 5)), 1, nil},
		{"version 2.3, lengths not swapped", join(le32(magicMicro, 0x00030002, 0, 0, 96, 1), le32(1, 2, 4, 60, 5)), 1, nil},

		{"section cut", section[:20], 0, ErrFormat},
		{"section alone", section, 0, nil},
		{"no byte order", block(magicNG, make([]byte, 16)...), 0, ErrFormat},
		{"block of 0", join(section, ethernet, le32(99, 0, 0)), 0, ErrCorrupt},
		{"block of 8", join(section, ethernet, le32(99, 8, 8)), 0, ErrCorrupt},
		{"block of 13", join(section, ethernet, le32(99, 13, 0, 13)), 0, ErrCorrupt},
		{"block of 4 GiB", join(section, ethernet, goodPacket, le32(99, 0xfffffffc)), 1, ErrTruncated},
		{"block that ends otherwise", join(section, ethernet, le32(99, 12, 16)), 0, ErrCorrupt},
		{"unknown block", join(section, ethernet, block(0x80000bad, 1, 2, 3, 4), goodPacket), 1, nil},
		{"short interface", join(section, block(blockInterface, 1, 0, 0, 0)), 0, ErrCorrupt},
		{"short packet", join(section, ethernet, block(blockEnhanced, make([]byte, 16)...)), 0, ErrCorrupt},
		{"short simple packet", join(section, ethernet, block(blockSimple)), 0, ErrCorrupt},
		{"packet beyond its block", join(section, ethernet, block(blockEnhanced, le32(0, 0, 0, 5, 5, 1)...)), 0, ErrCorrupt},
		{"packet of 4 GiB", join(section, ethernet, block(blockEnhanced, le32(0, 0, 0, math.MaxUint32, 5, 1)...)), 0, ErrCorrupt},
		{"packet of no interface", join(section, block(blockEnhanced, le32(0, 0, 0, 0, 0)...)), 0, ErrCorrupt},
		{"simple packet of no interface", join(section, block(blockSimple, le32(0)...)), 0, ErrCorrupt},
		{"interface of the section before", join(section, ethernet, goodPacket, section, goodPacket), 1, ErrCorrupt},
		{"simple packet cut by snap length", join(section, block(blockInterface, le32(1, 4)...), block(blockSimple, le32(1500, 1)...)), 1, nil},
		{"obsolete packet", join(section, ethernet, block(blockPacket, le32(0xffff0000, 0, 0, 4, 4, 1)...)), 1, nil},
		{"option of length 0", join(section, block(blockInterface, le32(1, 0, 9, 14, 0)...), goodPacket), 1, nil},
		{"option beyond its block", join(section, block(blockInterface, le32(1, 0, 0xfff00001, 0)...), goodPacket), 1, nil},
		{"10^-64 s", join(section, block(blockInterface, le32(1, 0, 0x00010009, 64, 0)...), goodPacket), 1, nil},
		{"2^-127 s", join(section, block(blockInterface, le32(1, 0, 0x00010009, 0xff, 0)...), goodPacket), 1, nil},
		{"an offset of 2^63 s", join(section, block(blockInterface, le32(1, 0, 0x0008000e, 0, 0x80000000, 0)...), goodPacket), 1, nil},
		{"an offset of 2^63-1 s", join(section, block(blockInterface, le32(1, 0, 0x0008000e, math.MaxUint32, 0x7fffffff, 0)...), goodPacket), 1, nil},
		{"section of version 2", join(section, ethernet, goodPacket, block(magicNG, le32(magicOrder, 2, 0, 0)...), goodPacket, section, ethernet, goodPacket), 2, nil},
		{"interfaces without end", join(section, bytes.Repeat(ethernet, maxInterfaces+1)), 0, ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, _, err := readBytes(tc.file)
			runtime.ReadMemStats(&after)
			if len(got) != tc.records || !errors.Is(err, tc.want) {
				t.Errorf("%d records and %v, want %d and %v", len(got), err, tc.records, tc.want)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
				t.Errorf("%d bytes allocated for a file of %d", n, len(tc.file))
			}
		})
	}
}

// TestTime converts timestamps of all resolutions, compared with exact
// arithmetic on the side.
func TestTime(t *testing.T) {
	for _, tc := range []struct {
		resolution byte
		offset     int64
		ts         uint64
		want       int64
	}{
		{6, 0, 1_700_000_000_123_456, 1_700_000_000_123_456_000},
		{9, 0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789},
		{9, -5, 6_000_000_001, 1_000_000_001},
		{3, 10, 1_234, 11_234_000_000},
		{0, 0, 77, 77_000_000_000},
		{12, 0, 1_999_999_999_999, 1_999_999_999},
		{19, 0, 15_000_000_000_000_000_000, 1_500_000_000},
		{0x80 | 32, 0, 5<<32 | 1<<31, 5_500_000_000},
		{0x80 | 63, 0, 1 << 62, 500_000_000},
		{20, 0, 12345, 0},
		{0, 0, math.MaxUint64, math.MaxInt64},
		{6, math.MinInt64, 0, math.MinInt64},
	} {
		f := ngInterface{units: unitsPerSecond(tc.resolution), offset: tc.offset}
		if got := f.nanoseconds(tc.ts); got != tc.want {
			t.Errorf("resolution %#x offset %d: %d is %d ns, want %d", tc.resolution, tc.offset, tc.ts, got, tc.want)
		}
	}
}

// FuzzReader reads anything. The bytes of all packets cannot exceed the file's,
// and the reader must come to an end.
func FuzzReader(f *testing.F) {
	for _, format := range formats {
		f.Add(writeAll(f, format, []string{"p0"}, randomRecords(rand.New(rand.NewPCG(5, 6)), 3)))
	}
	f.Add(join(section, block(blockInterface, le32(1, 0, 0x00010009, 64, 0x0008000e, 1, 2, 0)...), block(blockSimple, le32(4, 1)...), goodPacket))
	if shared := os.Getenv("WEIR_SHARED"); shared != "" {
		for _, path := range captures(f, "malformed") {
			if file, err := os.ReadFile(path); err == nil && len(file) < 4096 {
				f.Add(file)
			}
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		zipped := len(file) > 1 && file[0] == 0x1f && file[1] == 0x8b
		total := 0
		for n := 0; ; n++ {
			h, err := r.Next()
			if err == nil && n%2 == 0 {
				err = r.Skip()
			} else if err == nil {
				err = r.Read(make([]byte, min(h.CapLen, 100)))
			}
			if err != nil {
				return
			}
			if n%2 == 0 { // known to be there
				total += int(h.CapLen)
			}
			if !zipped && total+16*n > len(file) {
				t.Fatalf("%d packets of %d bytes in a file of %d", n, total, len(file))
			}
		}
	})
}
