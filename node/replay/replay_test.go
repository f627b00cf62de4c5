package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/pcapfile/pcaptest"
	"github.com/weirswitch/weir/node/replay"
	"github.com/weirswitch/weir/pipeline/packet"
)

// run replays, and checks the sums of the report. A replay that does not end is a fault like any other.
func run(t testing.TB, c replay.Config) (*replay.Report, error) {
	t.Helper()
	r, err := replay.New(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	report, err := r.Run(ctx)
	checkSums(t, report)
	return report, err
}

// captures are the configuration of a default switch that reads a capture and writes another one, if that has a name.
func captures(in, out string, graph ...string) replay.Config {
	if graph == nil {
		graph = []string{"parse", "patch"}
	}
	c := replay.Config{Switch: replay.DefaultSwitch(graph...), In: map[string]string{"p0": in}}
	if out != "" {
		c.Out = map[string]string{"": out}
	}
	return c
}

// parsed is the configuration of a switch.
func parsed(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func checkSums(t testing.TB, r *replay.Report) {
	t.Helper()
	var copiesDropped uint64
	for _, n := range r.CopiesDropped {
		copiesDropped += n
	}
	if !r.Balanced || r.Received != r.Forwarded+r.Consumed+r.DroppedTotal() || r.Copied != r.CopiesForwarded+r.CopiesConsumed+copiesDropped {
		t.Errorf("counters do not add up: %+v", r)
	}
	var received, transmitted uint64
	for i := range r.Ports {
		received += r.Ports[i].Received
		transmitted += r.Ports[i].Transmitted
	}
	if received != r.Received || transmitted != r.Forwarded+r.CopiesForwarded {
		t.Errorf("ports received %d and transmitted %d, want %d and %d", received, transmitted, r.Received, r.Forwarded+r.CopiesForwarded)
	}
}

func sharedCaptures(t testing.TB) []string {
	t.Helper()
	shared := os.Getenv("WEIR_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	var all []string
	for _, folder := range []string{"traces", "malformed"} {
		files, _ := filepath.Glob(filepath.Join(shared, "data", folder, "*.pcap*"))
		all = append(all, files...)
	}
	if len(all) == 0 {
		t.Skipf("no captures in %s: set WEIR_SHARED to the folder that holds data/traces and data/malformed", shared)
	}
	return all
}

// TestCaptures takes every capture through patch and l2, into both
// formats. What comes out is what went in, record by record; patch loses
// nothing; every packet has one fate.
func TestCaptures(t *testing.T) {
	refused, cut := 0, 0
	for i, path := range sharedCaptures(t) {
		formats := []string{"out.pcap", "out.pcapng"}
		if testing.Short() {
			formats = formats[i%2:][:1]
			if i%3 != 0 {
				continue
			}
		}
		if info, err := os.Stat(path); err == nil && testing.Short() && info.Size() > 1<<20 || err == nil && info.Size() > 8<<20 {
			formats = formats[:1] // half a million packets say no more in the other
			if testing.Short() {
				continue
			}
		}
		recs, readErr := pcaptest.Read(path)
		ethernet := slices.DeleteFunc(slices.Clone(recs), func(r pcaptest.Record) bool { return r.LinkType != pcapfile.Ethernet })
		for _, graph := range []string{"parse,patch", "parse,l2"} {
			for _, name := range formats {
				out := filepath.Join(t.TempDir(), name)
				r, err := run(t, captures(path, out, strings.Split(graph, ",")...))
				if r == nil {
					refused++
					if len(ethernet) != 0 || !strings.Contains(err.Error(), "link type") && !errors.Is(readErr, pcapfile.ErrFormat) {
						t.Errorf("%s: refused with %v, but it has %d Ethernet packets and reads as %v", path, err, len(ethernet), readErr)
					}
					continue
				}
				if readErr != nil {
					cut++
				}
				unread := (*replay.CaptureError)(nil)
				if bad := readErr != nil; bad != errors.As(err, &unread) || bad != (r.Error != "") || r.Truncated != errors.Is(readErr, pcapfile.ErrTruncated) {
					t.Errorf("%s: %v, %q, truncated %v; the capture: %v", path, err, r.Error, r.Truncated, readErr)
				}
				got, err := pcaptest.Read(out)
				if err != nil {
					t.Errorf("%s: output: %v", path, err)
				}
				checkOutput(t, fmt.Sprintf("%s through %s into %s", path, graph, name), r, recs, ethernet, got, graph)
			}
		}
	}
	t.Logf("%d runs were refused, %d captures ended early", refused, cut)
}

func checkOutput(t *testing.T, what string, r *replay.Report, recs, ethernet, got []pcaptest.Record, graph string) {
	t.Helper()
	if r.Received != uint64(len(recs)) || uint64(len(got)) != r.Forwarded+r.CopiesForwarded {
		t.Errorf("%s: received %d of %d, wrote %d of %d", what, r.Received, len(recs), len(got), r.Forwarded+r.CopiesForwarded)
	}
	if n := r.Dropped["not_ethernet"]; n != uint64(len(recs)-len(ethernet)) {
		t.Errorf("%s: %d not Ethernet, want %d", what, n, len(recs)-len(ethernet))
	}
	var bytes, runts uint64
	for i := range recs {
		bytes += uint64(recs[i].WireLen)
		if recs[i].LinkType == pcapfile.Ethernet && recs[i].CapLen < 14 {
			runts++
		}
	}
	if r.Dropped["runt"] != runts {
		t.Errorf("%s: %d runts, want %d", what, r.Dropped["runt"], runts)
	}
	if graph == "parse,patch" && r.Forwarded+runts != uint64(len(ethernet)) {
		t.Errorf("%s: forwarded %d and %d runts of %d", what, r.Forwarded, runts, len(ethernet))
	}
	if r.Bytes != bytes {
		t.Errorf("%s: %d bytes, want %d", what, r.Bytes, bytes)
	}
	k := 0
	for i := range got {
		for k < len(ethernet) && ethernet[k] != got[i] {
			k++
		}
		if k == len(ethernet) {
			t.Fatalf("%s: record %d of the output, %+v, is not in the input, or not in this order", what, i, got[i].Header)
		}
		k++
	}
}

// TestKeepsTheFile compares whole files: a capture that passes unchanged
// is written as it was read, header and all.
func TestKeepsTheFile(t *testing.T) {
	for _, f := range []pcapfile.Format{
		{LinkField: 1, SnapLen: 1514},
		{LinkField: 0x24000001, SnapLen: 1514, BigEndian: true, Nano: true, Zone: 1, SigFigs: 2},
	} {
		in := pcaptest.Write(t, "in.pcap.gz", f, pcaptest.Frame(1, 2, 5e9+3000, 60), pcaptest.Frame(2, 1, 4e9, 1514), pcaptest.Frame(0, 9, 0, 14))
		plain := filepath.Join(t.TempDir(), "plain.pcap")
		again := filepath.Join(t.TempDir(), "again.pcap.gz")
		for _, files := range [][2]string{{in, plain}, {plain, again}} {
			if _, err := run(t, captures(files[0], files[1])); err != nil {
				t.Fatal(err)
			}
		}
		a, _ := os.ReadFile(in)
		b, _ := os.ReadFile(again)
		if len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%v: %d bytes became %d others", f, len(a), len(b))
		}
	}
}

// TestDiskFull: what cannot be written is noticed, at the end or before.
func TestDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	for _, n := range []int{1, 5000} {
		recs := make([]pcaptest.Record, n)
		for i := range recs {
			recs[i] = pcaptest.Frame(1, 2, int64(i)*1000, 1000)
		}
		r, err := run(t, captures(pcaptest.Write(t, "in.pcap", pcapfile.Format{}, recs...), "/dev/full"))
		if !errors.Is(err, unix.ENOSPC) || r == nil || r.Error == "" {
			t.Errorf("%d packets: report %+v, %v", n, r, err)
		}
	}
}

// TestTruncated cuts a capture inside its last packet.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"in.pcap", "in.pcapng", "in.pcap.gz"} {
		var recs []pcaptest.Record
		for i := range 100 {
			recs = append(recs, pcaptest.Frame(1, byte(2+i), int64(i)*1000, 60+i))
		}
		path := pcaptest.Write(t, name, pcapfile.Format{}, recs...)
		info, _ := os.Stat(path)
		if err := os.Truncate(path, info.Size()-20); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out.pcapng")
		r, err := run(t, captures(path, out))
		unread := (*replay.CaptureError)(nil)
		if !errors.As(err, &unread) || r == nil || !r.Truncated || r.Error == "" {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		got, err := pcaptest.Read(out)
		if err != nil || len(got) < 90 && name != "in.pcap.gz" || uint64(len(got)) != r.Received || !slices.Equal(got, recs[:len(got)]) {
			t.Errorf("%s: %d records came out, error %v", name, len(got), err)
		}
	}
}

// TestMixedLinks reads a pcapng whose first packets are not Ethernet and
// come before the Ethernet interface is described.
func TestMixedLinks(t *testing.T) {
	block := func(kind byte, body ...byte) []byte {
		n := byte(12 + len(body))
		return slices.Concat([]byte{kind, 0, 0, 0, n, 0, 0, 0}, body, []byte{n, 0, 0, 0})
	}
	pkt := func(iface byte) []byte {
		return block(6, iface, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 16, 0, 0, 0, 70, 0, 0, 0,
			2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb6, 1, iface)
	}
	section := slices.Concat([]byte{0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0},
		bytes.Repeat([]byte{0xff}, 8), []byte{28, 0, 0, 0})
	cooked := slices.Concat(section, block(1, 113, 0, 0, 0, 0, 0, 0, 0), pkt(0), pkt(0))
	mixed := slices.Concat(cooked, block(1, 1, 0, 0, 0, 0, 0, 0, 0), pkt(1), pkt(0), pkt(1))
	path := filepath.Join(t.TempDir(), "in.pcapng")
	for _, tc := range []struct {
		file []byte
		good bool
	}{{mixed, true}, {cooked, false}} {
		if err := os.WriteFile(path, tc.file, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := run(t, captures(path, ""))
		if (err == nil) != tc.good {
			t.Fatal(err)
		}
		if tc.good && (r.Received != 5 || r.Forwarded != 2 || r.Dropped["not_ethernet"] != 3 || r.Bytes != 350) {
			t.Errorf("%+v, want 5 = 2 + 3 not Ethernet, of 350 bytes", r.Fate)
		}
	}
}

// TestTooLong receives a packet longer than any frame.
func TestTooLong(t *testing.T) {
	path := pcaptest.Write(t, "in.pcap", pcapfile.Format{}, pcaptest.Frame(1, 2, 0, 60), pcaptest.Frame(1, 2, 1000, 600_000), pcaptest.Frame(1, 2, 2000, 262_144))
	r, err := run(t, captures(path, ""))
	if err != nil || r.Received != 3 || r.Forwarded != 2 || r.Dropped["too_long"] != 1 {
		t.Errorf("%v, %+v; want 2 forwarded and 1 too long", err, r)
	}
}

// TestMalformed counts what the parser found wrong, and forwards it.
func TestMalformed(t *testing.T) {
	cut := pcaptest.Frame(1, 2, 0, 20)
	cut.Data = cut.Data[:12] + "\x08\x00" + cut.Data[14:] // IPv4, in 6 bytes
	path := pcaptest.Write(t, "in.pcap", pcapfile.Format{}, cut, pcaptest.Frame(1, 2, 0, 60))
	r, err := run(t, captures(path, ""))
	if err != nil {
		t.Fatal(err)
	}
	if r.Forwarded != 2 || len(r.Malformed) != 1 || r.Malformed["ipv4_truncated"] != 1 {
		t.Errorf("forwarded %d, malformed %v, want 2 and one ipv4_truncated", r.Forwarded, r.Malformed)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "\nmalformed\n  ipv4_truncated  1  the packet ends") {
		t.Errorf("%v: no table of malformed packets in:\n%s", err, &text)
	}
}

// TestPorts feeds both ports of a patch and writes each to a file.
func TestPorts(t *testing.T) {
	a := []pcaptest.Record{pcaptest.Frame(1, 2, 1000, 60), pcaptest.Frame(1, 2, 9000, 61)}
	b := []pcaptest.Record{pcaptest.Frame(2, 1, 2000, 62), pcaptest.Frame(2, 1, 3000, 63)}
	in0, in1 := pcaptest.Write(t, "a.pcap", pcapfile.Format{}, a...), pcaptest.Write(t, "b.pcapng", pcapfile.Format{}, b...)
	dir := t.TempDir()
	out0, out1, all := filepath.Join(dir, "0.pcap"), filepath.Join(dir, "1.pcapng"), filepath.Join(dir, "all.pcap")
	for _, out := range []map[string]string{{"p0": out0, "p1": out1}, {"": all}} {
		c := captures(in0, "")
		c.In["p1"], c.Out = in1, out
		if _, err := run(t, c); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		path string
		want []pcaptest.Record
	}{{out0, b}, {out1, a}, {all, []pcaptest.Record{a[0], b[0], b[1], a[1]}}} {
		if got, err := pcaptest.Read(tc.path); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v, want %v", tc.path, got, err, tc.want)
		}
	}
}

// TestConfig floods on a switch of four ports from a file: copies leave
// in the order of their packets, once per port, never back; once a station is
// known, its packets take one port.
func TestConfig(t *testing.T) {
	text := "[switch]\nname = \"four\"\ngraph = [\"parse\", \"l2\"]\n"
	for i := range 4 {
		text += fmt.Sprintf("[[port]]\nname = \"eth%d\"\ninterface = \"enp%d\"\n", i, i)
	}
	var in0, in1 []pcaptest.Record
	for i := range 200 {
		at := int64(i) * 10_000
		in0 = append(in0, pcaptest.Frame(0, 10, at, 60+i), pcaptest.Frame(20, 10, at+2000, 60+i))
		in1 = append(in1, pcaptest.Frame(10, 20, at+1000, 70+i))
	}
	out := filepath.Join(t.TempDir(), "all.pcapng")
	r, err := run(t, replay.Config{Switch: parsed(t, text), Out: map[string]string{"": out}, In: map[string]string{
		"eth0": pcaptest.Write(t, "0.pcap", pcapfile.Format{}, in0...),
		"eth1": pcaptest.Write(t, "1.pcap", pcapfile.Format{}, in1...),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var want []pcaptest.Record
	for i := range in1 {
		want = append(want, in0[2*i], in0[2*i], in0[2*i], in1[i], in0[2*i+1])
	}
	got, err := pcaptest.Read(out)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d records (%v), want %d: the broadcast three times, the answer, the packet to it", len(got), err, len(want))
	}
	if r.Received != 600 || r.Forwarded != 600 || r.Copied != 400 || r.CopiesForwarded != 400 {
		t.Errorf("received %d, forwarded %d, copied %d", r.Received, r.Forwarded, r.Copied)
	}
	for i, n := range []uint64{200, 400, 200, 200} {
		if r.Ports[i].Transmitted != n {
			t.Errorf("eth%d transmitted %d, want %d", i, r.Ports[i].Transmitted, n)
		}
	}
}

// TestTrace: the report has the steps of two packets, as data and in words.
func TestTrace(t *testing.T) {
	c := captures(pcaptest.Write(t, "in.pcap", pcapfile.Format{}, pcaptest.Frame(1, 2, 0, 60), pcaptest.Frame(1, 2, 0, 61), pcaptest.Frame(1, 2, 0, 62)), "")
	c.Trace = 2
	r, err := run(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Traces) != 2 || r.Traces[1].Length != 61 || len(r.Traces[1].Steps) != 2 || r.Traces[1].Steps[1].Stage != "patch" {
		t.Errorf("traces %+v", r.Traces)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"packet 1: 60 bytes from p0\n  parse ", "packet 2: 61 bytes from p0\n  parse ", "p0 is patched to p1", "received 3 = forwarded 3 + consumed 0 + dropped 0"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "packet 3") {
		t.Errorf("a third packet was traced:\n%s", &text)
	}
}

// TestAges: a station ages by the capture's time, which passes 1,000 s
// between two batches, and not by the clock, which passes milliseconds.
func TestAges(t *testing.T) {
	var recs []pcaptest.Record
	const second = int64(time.Second)
	start := 1_700_000_000 * second
	recs = append(recs, pcaptest.Frame(2, 1, start, 60)) // teaches where 1 is
	for i := range 200 {
		recs = append(recs, pcaptest.Frame(1, 3, start+int64(i)+1, 60)) // to 1, on its own port: dropped
	}
	for i := range 200 {
		recs = append(recs, pcaptest.Frame(1, 3, start+1000*second+int64(i), 60)) // 1 is forgotten: flooded
	}
	in := pcaptest.Write(t, "in.pcap", pcapfile.Format{Nano: true}, recs...)
	r, err := run(t, captures(in, "", "parse", "l2"))
	if err != nil {
		t.Fatal(err)
	}
	// The batch that holds the jump has the time of its first packet.
	forgotten := r.Forwarded - 1
	if r.Received != 401 || forgotten < 200-packet.BatchSize || forgotten > 200 || r.Dropped["same_port"] != 401-r.Forwarded {
		t.Errorf("%d received, %d forwarded, dropped %v", r.Received, r.Forwarded, r.Dropped)
	}
}
