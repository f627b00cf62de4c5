package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/pipeline/packet"
)

// runReplay runs the command line in this process. A replay that does not end
// is a fault like any other.
func runReplay(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	done := make(chan int, 1)
	go func() { done <- run(append([]string{"replay"}, args...), strings.NewReader(""), &out, &errs) }()
	select {
	case status = <-done:
	case <-time.After(5 * time.Minute):
		t.Fatalf("weir replay %s does not end", strings.Join(args, " "))
	}
	return status, out.String(), errs.String()
}

// replayJSON runs the command and reads its report, nil if it printed none.
func replayJSON(t testing.TB, args ...string) (int, *replayReport, string) {
	t.Helper()
	status, stdout, stderr := runReplay(t, append(args, "--json")...)
	if stdout == "" {
		return status, nil, stderr
	}
	var r replayReport
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("report of %v: %v\n%s", args, err, stdout)
	}
	checkSums(t, &r)
	return status, &r, stderr
}

func checkSums(t testing.TB, r *replayReport) {
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

// rec is one record of a capture.
type rec struct {
	pcapfile.Header
	data string
}

// readRecords reads what is readable, and says why it ended.
func readRecords(path string) ([]rec, error) {
	in, err := pcapfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var recs []rec
	for {
		h, err := in.Next()
		if err == io.EOF {
			return recs, nil
		}
		if err != nil {
			return recs, err
		}
		data := make([]byte, h.CapLen)
		if err := in.Read(data); err != nil {
			return recs, err
		}
		h.Interface = 0
		recs = append(recs, rec{h, string(data)})
	}
}

func writeRecords(t testing.TB, name string, f pcapfile.Format, recs ...rec) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	out, err := pcapfile.Create(path, f, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if err := out.WriteHeader(r.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, r.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// frame is an Ethernet packet between two stations, 0 being all of them.
func frame(dst, src byte, at int64, size int) rec {
	data := make([]byte, size)
	copy(data, []byte{2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb6, dst, src})
	if dst == 0 {
		copy(data, "\xff\xff\xff\xff\xff\xff")
	}
	return rec{pcapfile.Header{Time: at, CapLen: uint32(size), WireLen: uint32(size), LinkType: pcapfile.Ethernet}, string(data)}
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

// TestReplayCaptures takes every capture through patch and l2, into both
// formats. What comes out is what went in, record by record; patch loses
// nothing; every packet has one fate.
func TestReplayCaptures(t *testing.T) {
	refused, cut := 0, 0
	for _, path := range sharedCaptures(t) {
		formats := []string{"out.pcap", "out.pcapng"}
		if info, err := os.Stat(path); err == nil && info.Size() > 8<<20 {
			formats = formats[:1] // half a million packets say no more in the other
			if testing.Short() {
				continue
			}
		}
		recs, readErr := readRecords(path)
		ethernet := slices.DeleteFunc(slices.Clone(recs), func(r rec) bool { return r.LinkType != pcapfile.Ethernet })
		for _, graph := range []string{"parse,patch", "parse,l2"} {
			for _, name := range formats {
				out := filepath.Join(t.TempDir(), name)
				status, r, stderr := replayJSON(t, "--graph", graph, "--in", path, "--out", out)
				if r == nil {
					refused++
					checkRefusal(t, path, status, stderr, readErr, len(ethernet))
					continue
				}
				if readErr != nil {
					cut++
				}
				if bad := readErr != nil; bad != (status == 2) || bad != (r.Error != "") || r.Truncated != errors.Is(readErr, pcapfile.ErrTruncated) {
					t.Errorf("%s: status %d, %q, truncated %v; the capture: %v", path, status, r.Error, r.Truncated, readErr)
				}
				got, err := readRecords(out)
				if err != nil {
					t.Errorf("%s: output: %v", path, err)
				}
				checkOutput(t, fmt.Sprintf("%s through %s into %s", path, graph, name), r, recs, ethernet, got, graph)
			}
		}
	}
	t.Logf("%d runs were refused, %d captures ended early", refused, cut)
}

func checkRefusal(t *testing.T, path string, status int, stderr string, readErr error, ethernet int) {
	t.Helper()
	if status != 2 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%s: status %d and %q, want 2 and one sentence", path, status, stderr)
	}
	if ethernet != 0 || !strings.Contains(stderr, "link type") && !errors.Is(readErr, pcapfile.ErrFormat) {
		t.Errorf("%s: refused with %q, but it has %d Ethernet packets and reads as %v", path, stderr, ethernet, readErr)
	}
}

func checkOutput(t *testing.T, what string, r *replayReport, recs, ethernet, got []rec, graph string) {
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

// TestReplayKeepsTheFile compares whole files: a capture that passes unchanged
// is written as it was read, header and all.
func TestReplayKeepsTheFile(t *testing.T) {
	for _, f := range []pcapfile.Format{
		{LinkField: 1, SnapLen: 1514},
		{LinkField: 0x24000001, SnapLen: 1514, BigEndian: true, Nano: true, Zone: 1, SigFigs: 2},
	} {
		in := writeRecords(t, "in.pcap.gz", f, frame(1, 2, 5e9+3000, 60), frame(2, 1, 4e9, 1514), frame(0, 9, 0, 14))
		plain := filepath.Join(t.TempDir(), "plain.pcap")
		again := filepath.Join(t.TempDir(), "again.pcap.gz")
		for _, run := range [][2]string{{in, plain}, {plain, again}} {
			if status, _, stderr := runReplay(t, "--in", run[0], "--out", run[1]); status != 0 {
				t.Fatal(stderr)
			}
		}
		a, _ := os.ReadFile(in)
		b, _ := os.ReadFile(again)
		if len(a) == 0 || !bytes.Equal(a, b) {
			t.Errorf("%v: %d bytes became %d others", f, len(a), len(b))
		}
	}
}

// TestReplayUsage: each mistake gives one sentence and status 2, and creates
// no output.
func TestReplayUsage(t *testing.T) {
	good := writeRecords(t, "in.pcap", pcapfile.Format{}, frame(1, 2, 0, 60))
	raw, _ := os.ReadFile(good)
	file := func(content []byte) string {
		path := filepath.Join(t.TempDir(), "made.pcap")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	linked := func(link byte) string {
		b := slices.Clone(raw)
		b[20] = link
		return file(b)
	}
	for _, tc := range []struct {
		name string
		want string
		args []string
	}{
		{"nothing", "--in", nil},
		{"argument", "unknown command", []string{"x.pcap"}},
		{"flag", "unknown flag", []string{"--on", good}},
		{"config and graph", "config", []string{"-c", "x", "--graph", "parse", "--in", good}},
		{"config missing", "x.toml", []string{"-c", "x.toml", "--in", good}},
		{"graph", `no stage "l4"|stage "l4" does not exist`, []string{"--graph", "parse,l4", "--in", good}},
		{"graph without parse", "parse", []string{"--graph", "patch", "--in", good}},
		{"trace", "--trace", []string{"--trace", "-1", "--in", good}},
		{"no file", "no such file", []string{"--in", "absent.pcap"}},
		{"no port", `"p7"`, []string{"--in", "p7=" + good}},
		{"no name", "names no file", []string{"--in", "p0="}},
		{"twice in", "has that port already", []string{"--in", good, "--in", good}},
		{"twice out", "has that port already", []string{"--in", good, "--out", "a", "--out", "b"}},
		{"directory", "directory", []string{"--in", t.TempDir()}},
		{"empty", "too few", []string{"--in", file(nil)}},
		{"text", "not a readable capture", []string{"--in", file([]byte("hello, world, how are you?"))}},
		{"raw IP", "101 (raw IP)", []string{"--in", linked(101)}},
		{"802.11", "105 (802.11)", []string{"--in", linked(105)}},
		{"no folder", "no such file", []string{"--in", good, "--out", "absent/out.pcap"}},
		{"same file", "write over", []string{"--in", good, "--out", good}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.pcap")
			if !slices.Contains(tc.args, "--out") {
				tc.args = append(tc.args, "--out", out)
			}
			status, stdout, stderr := runReplay(t, tc.args...)
			found := slices.ContainsFunc(strings.Split(tc.want, "|"), func(w string) bool { return strings.Contains(stderr, w) })
			if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !found {
				t.Errorf("status %d, stdout %q, stderr %q; want 2 and one line with %q", status, stdout, stderr, tc.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("an output was created")
			}
		})
	}
	if now, _ := os.ReadFile(good); !bytes.Equal(now, raw) {
		t.Error("the capture was written over")
	}
	t.Run("one output for two ports", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "out.pcap")
		status, _, stderr := runReplay(t, "--in", good, "--out", "p0="+out, "--out", "p1="+out)
		if status != 2 || !strings.Contains(stderr, "twice") {
			t.Errorf("status %d, %q", status, stderr)
		}
	})
}

// TestReplayDiskFull: what cannot be written is noticed, at the end or before.
func TestReplayDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	for _, n := range []int{1, 5000} {
		recs := make([]rec, n)
		for i := range recs {
			recs[i] = frame(1, 2, int64(i)*1000, 1000)
		}
		status, r, stderr := replayJSON(t, "--in", writeRecords(t, "in.pcap", pcapfile.Format{}, recs...), "--out", "/dev/full")
		if status != 1 || r == nil || r.Error == "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%d packets: status %d, report %+v, stderr %q; want 1 and the reason", n, status, r, stderr)
		}
	}
}

// TestReplayTruncated cuts a capture inside its last packet.
func TestReplayTruncated(t *testing.T) {
	for _, name := range []string{"in.pcap", "in.pcapng", "in.pcap.gz"} {
		var recs []rec
		for i := range 100 {
			recs = append(recs, frame(1, byte(2+i), int64(i)*1000, 60+i))
		}
		path := writeRecords(t, name, pcapfile.Format{}, recs...)
		info, _ := os.Stat(path)
		if err := os.Truncate(path, info.Size()-20); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out.pcapng")
		status, r, stderr := replayJSON(t, "--in", path, "--out", out)
		if status != 2 || r == nil || !r.Truncated || r.Error == "" || strings.Count(stderr, "\n") != 1 {
			t.Fatalf("%s: status %d, %+v, %q", name, status, r, stderr)
		}
		got, err := readRecords(out)
		if err != nil || len(got) < 90 && name != "in.pcap.gz" || uint64(len(got)) != r.Received || !slices.Equal(got, recs[:len(got)]) {
			t.Errorf("%s: %d records came out, error %v", name, len(got), err)
		}
	}
}

// TestReplayMixedLinks reads a pcapng whose first packets are not Ethernet and
// come before the Ethernet interface is described.
func TestReplayMixedLinks(t *testing.T) {
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
		file   []byte
		status int
	}{{mixed, 0}, {cooked, 2}} {
		if err := os.WriteFile(path, tc.file, 0o600); err != nil {
			t.Fatal(err)
		}
		status, r, stderr := replayJSON(t, "--in", path)
		if status != tc.status {
			t.Fatalf("status %d: %s", status, stderr)
		}
		if status == 0 && (r.Received != 5 || r.Forwarded != 2 || r.Dropped["not_ethernet"] != 3 || r.Bytes != 350) {
			t.Errorf("%+v, want 5 = 2 + 3 not Ethernet, of 350 bytes", r.Fate)
		}
	}
}

// TestReplayTooLong receives a packet longer than any frame.
func TestReplayTooLong(t *testing.T) {
	path := writeRecords(t, "in.pcap", pcapfile.Format{}, frame(1, 2, 0, 60), frame(1, 2, 1000, 600_000), frame(1, 2, 2000, 262_144))
	status, r, stderr := replayJSON(t, "--in", path)
	if status != 0 || r.Received != 3 || r.Forwarded != 2 || r.Dropped["too_long"] != 1 {
		t.Errorf("status %d, %s, %+v; want 2 forwarded and 1 too long", status, stderr, r)
	}
}

// TestReplayMalformed counts what the parser found wrong, and forwards it.
func TestReplayMalformed(t *testing.T) {
	cut := frame(1, 2, 0, 20)
	cut.data = cut.data[:12] + "\x08\x00" + cut.data[14:] // IPv4, in 6 bytes
	path := writeRecords(t, "in.pcap", pcapfile.Format{}, cut, frame(1, 2, 0, 60))
	_, r, _ := replayJSON(t, "--in", path)
	if r.Forwarded != 2 || len(r.Malformed) != 1 || r.Malformed["ipv4_truncated"] != 1 {
		t.Errorf("forwarded %d, malformed %v, want 2 and one ipv4_truncated", r.Forwarded, r.Malformed)
	}
	if _, text, _ := runReplay(t, "--in", path); !strings.Contains(text, "\nmalformed\n  ipv4_truncated  1  the packet ends") {
		t.Errorf("no table of malformed packets in:\n%s", text)
	}
}

// TestReplayPorts feeds both ports of a patch and writes each to a file.
func TestReplayPorts(t *testing.T) {
	a := []rec{frame(1, 2, 1000, 60), frame(1, 2, 9000, 61)}
	b := []rec{frame(2, 1, 2000, 62), frame(2, 1, 3000, 63)}
	in0, in1 := writeRecords(t, "a.pcap", pcapfile.Format{}, a...), writeRecords(t, "b.pcapng", pcapfile.Format{}, b...)
	dir := t.TempDir()
	out0, out1, all := filepath.Join(dir, "0.pcap"), filepath.Join(dir, "1.pcapng"), filepath.Join(dir, "all.pcap")
	if status, _, stderr := runReplay(t, "--in", "p0="+in0, "--in", "p1="+in1, "--out", "p0="+out0, "--out", "p1="+out1); status != 0 {
		t.Fatal(stderr)
	}
	if status, _, stderr := runReplay(t, "--in", "p0="+in0, "--in", "p1="+in1, "--out", all); status != 0 {
		t.Fatal(stderr)
	}
	for _, tc := range []struct {
		path string
		want []rec
	}{{out0, b}, {out1, a}, {all, []rec{a[0], b[0], b[1], a[1]}}} {
		if got, err := readRecords(tc.path); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v, want %v", tc.path, got, err, tc.want)
		}
	}
}

// TestReplayConfig floods on a switch of four ports from a file: copies leave
// in the order of their packets, once per port, never back; once a station is
// known, its packets take one port.
func TestReplayConfig(t *testing.T) {
	toml := filepath.Join(t.TempDir(), "four.toml")
	text := "[switch]\nname = \"four\"\ngraph = [\"parse\", \"l2\"]\n"
	for i := range 4 {
		text += fmt.Sprintf("[[port]]\nname = \"eth%d\"\ninterface = \"enp%d\"\n", i, i)
	}
	if err := os.WriteFile(toml, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var in0, in1 []rec
	for i := range 200 {
		at := int64(i) * 10_000
		in0 = append(in0, frame(0, 10, at, 60+i), frame(20, 10, at+2000, 60+i))
		in1 = append(in1, frame(10, 20, at+1000, 70+i))
	}
	out := filepath.Join(t.TempDir(), "all.pcapng")
	status, r, stderr := replayJSON(t, "-c", toml, "--out", out,
		"--in", "eth0="+writeRecords(t, "0.pcap", pcapfile.Format{}, in0...),
		"--in", "eth1="+writeRecords(t, "1.pcap", pcapfile.Format{}, in1...))
	if status != 0 {
		t.Fatal(stderr)
	}
	var want []rec
	for i := range in1 {
		want = append(want, in0[2*i], in0[2*i], in0[2*i], in1[i], in0[2*i+1])
	}
	got, err := readRecords(out)
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

// TestReplayTrace prints the path of two packets, in words and in JSON.
func TestReplayTrace(t *testing.T) {
	path := writeRecords(t, "in.pcap", pcapfile.Format{}, frame(1, 2, 0, 60), frame(1, 2, 0, 61), frame(1, 2, 0, 62))
	_, text, _ := runReplay(t, "--in", path, "--trace", "2")
	for _, want := range []string{"packet 1: 60 bytes from p0\n  parse ", "packet 2: 61 bytes from p0\n  parse ", "p0 is patched to p1", "received 3 = forwarded 3 + consumed 0 + dropped 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "packet 3") {
		t.Errorf("a third packet was traced:\n%s", text)
	}
	_, r, _ := replayJSON(t, "--in", path, "--trace", "2")
	if len(r.Traces) != 2 || r.Traces[1].Length != 61 || len(r.Traces[1].Steps) != 2 || r.Traces[1].Steps[1].Stage != "patch" {
		t.Errorf("traces %+v", r.Traces)
	}
}

// TestReplayAges: a station ages by the capture's time, which passes 1,000 s
// between two batches, and not by the clock, which passes milliseconds.
func TestReplayAges(t *testing.T) {
	var recs []rec
	const second = int64(time.Second)
	start := 1_700_000_000 * second
	recs = append(recs, frame(2, 1, start, 60)) // teaches where 1 is
	for i := range 200 {
		recs = append(recs, frame(1, 3, start+int64(i)+1, 60)) // to 1, on its own port: dropped
	}
	for i := range 200 {
		recs = append(recs, frame(1, 3, start+1000*second+int64(i), 60)) // 1 is forgotten: flooded
	}
	in := writeRecords(t, "in.pcap", pcapfile.Format{Nano: true}, recs...)
	status, r, stderr := replayJSON(t, "--graph", "parse,l2", "--in", in)
	if status != 0 {
		t.Fatal(stderr)
	}
	// The batch that holds the jump has the time of its first packet.
	forgotten := r.Forwarded - 1
	if r.Received != 401 || forgotten < 200-packet.BatchSize || forgotten > 200 || r.Dropped["same_port"] != 401-r.Forwarded {
		t.Errorf("%d received, %d forwarded, dropped %v", r.Received, r.Forwarded, r.Dropped)
	}
}
