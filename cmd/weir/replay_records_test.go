package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/pcapfile"
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

// TestReplayChainRecords: each switch of a chain writes its own records, which
// hold what those of a switch alone do, though packets carry digests between them; and
// together they count each packet once.
func TestReplayChainRecords(t *testing.T) {
	capture := flowsCapture(t, 4000)
	for _, c := range []struct{ name, config string }{
		{"plain", samplingSwitch},
		{"pint", strings.Replace(samplingSwitch, `"patch"]`, `"patch", "pint"]`, 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := writeFile(t, c.config)
			alone, chained := t.TempDir(), t.TempDir()
			for folder, switches := range map[string]string{alone: "1", chained: "3"} {
				args := []string{"--chain", switches, "-c", file, "--in", capture, "--records", folder}
				if status, _, stderr := runReplay(t, args...); status != 0 {
					t.Fatal(stderr)
				}
			}
			single, all := readStore(t, alone), readStore(t, chained)
			if names := all.Switches(); !slices.Equal(names, []string{"s1", "s2", "s3"}) {
				t.Fatalf("records of %v", names)
			}
			if len(single.Samples) < 10 || len(all.Samples) != 3*len(single.Samples) {
				t.Fatalf("%d samples of a chain of 3, %d of one switch", len(all.Samples), len(single.Samples))
			}
			for i := range all.Samples {
				s := &all.Samples[i]
				at := slices.IndexFunc(single.Samples, func(o store.Sample) bool { return o.From == s.From && o.Instance == s.Instance })
				if at < 0 || !sameSample(s.Sample, single.Samples[at].Sample) {
					t.Fatalf("switch %d, epoch at %d, instance %d: not the sample of a single switch", s.Switch, s.From, s.Instance)
				}
			}
			a, errA := (&query.Engine{Store: single}).Volume(nil)
			b, errB := (&query.Engine{Store: all}).Volume(nil)
			if errA != nil || errB != nil || a.Packets != b.Packets || a.Bytes != b.Bytes || b.NaivePackets != 3*a.NaivePackets || a.Packets.Low == a.Packets.High {
				t.Errorf("volume %+v, %v of the chain, %+v, %v of one switch", b, errB, a, errA)
			}
		})
	}
}

// flowsCapture is a capture of UDP packets of many sizes and 60 flows, 0.4 ms
// apart.
func flowsCapture(t *testing.T, packets int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var recs []rec
	for i := range packets {
		f := make([]byte, 60+r.IntN(1400))
		copy(f, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, byte(i >> 8), byte(i), 0, 0, 64, 17, 0, 0, 10, 0, 0, byte(r.IntN(60)), 10, 1, 0, 1, 4, 1, 0, 9})
		binary.BigEndian.PutUint16(f[16:], uint16(len(f)-14))
		binary.BigEndian.PutUint16(f[38:], uint16(len(f)-34))
		recs = append(recs, rec{pcapfile.Header{Time: 1e18 + int64(i)*400_000, CapLen: uint32(len(f)), WireLen: uint32(len(f)), LinkType: pcapfile.Ethernet}, string(f)})
	}
	return writeRecords(t, "flows.pcap", pcapfile.Format{LinkField: uint32(pcapfile.Ethernet)}, recs...)
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

// TestQuerySelections: a prefix, a protocol, a port, alone and together, in packets and
// bytes, with shares, by the command.
func TestQuerySelections(t *testing.T) {
	records := t.TempDir()
	if status, _, stderr := runReplay(t, "--graph", "parse,oblivious,patch", "--chain", "2", "--in", "../../docs/example.pcap", "--records", records); status != 0 {
		t.Fatal(stderr)
	}
	ask := func(args ...string) (string, error) {
		out, err := weirCommand(append([]string{"query", args[0], "--records", records}, args[1:]...)...).CombinedOutput()
		return string(out), err
	}
	for _, c := range []struct {
		args    string
		packets float64
	}{
		{"", 12}, {"--proto icmp", 6}, {"--proto 17", 4}, {"--proto tcp", 0}, {"--port 9", 4}, {"--port 40001 --proto udp", 1},
		{"--src 10.0.0.1", 7}, {"--dst 10.0.0.1/32", 3}, {"--prefix 10.0.0.0/30", 10}, {"--prefix 10.0.0.1 --dst 10.0.0.2 --proto icmp", 3}, {"--prefix fd00::/8", 0},
	} {
		out, err := ask(append([]string{"volume", "--json"}, strings.Fields(c.args)...)...)
		var v query.Volume
		if jsonErr := json.Unmarshal([]byte(out), &v); err != nil || jsonErr != nil {
			t.Fatalf("%s: %v, %v\n%s", c.args, err, jsonErr, out)
		}
		if want := (query.Bounded{Value: c.packets, Low: c.packets, High: c.packets}); v.Packets != want || v.NaivePackets != 24 {
			t.Errorf("%q: %+v, want %g", c.args, v, c.packets)
		}
		if (v.Share == nil) != (c.args == "") || v.Share != nil && v.Share.Packets.Value != c.packets/12 {
			t.Errorf("%q: share %+v of %g in 12", c.args, v.Share, c.packets)
		}
		if out, err := ask(append([]string{"volume"}, strings.Fields(c.args)...)...); err != nil || !strings.Contains(out, fmt.Sprintf("packets, each counted once: %g (exact)", c.packets)) {
			t.Errorf("%q: %v\n%s", c.args, err, out)
		}
	}
	for _, c := range []struct{ args, says string }{
		{"volume --prefix 10.0.0.0/33", "is no prefix"}, {"volume --src ten", "is no prefix"}, {"volume --proto frog", "known protocol"},
		{"volume --port 65536", "65535"}, {"volume --port -1", "65535"}, {"volume --delta 1.5", "above 0 and below 1"},
		{"volume --confidence 0", "above 0 and below 1"}, {"volume --confidence NaN", "above 0 and below 1"},
		{"volume --delta 0.1 --confidence 0.9", "none of the others"}, {"heavy-hitters --theta 0", "choose a share"},
		{"heavy-hitters --theta NaN", "choose a share"}, {"heavy-hitters --theta 0.01 --epsilon 0.02", "choose 0 up to theta"}, {"heavy-hitters --epsilon -1", "choose 0 up to theta"},
	} {
		cmd := weirCommand(append([]string{"query", "--records", records}, strings.Fields(c.args)...)...)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
	if out, err := ask("heavy-hitters", "--theta", "0.2", "--epsilon", "0.1", "--delta", "0.01"); err != nil || !strings.Contains(out, "3 flows of at least 15 %") || !strings.Contains(out, "exact") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestReplayRecordsDropped: a spool that is too small for a replay's records is an error,
// since nothing else reports that the first are gone.
func TestReplayRecordsDropped(t *testing.T) {
	big := strings.Replace(samplingSwitch, "size = 50", "size = 20_000", 1)
	small := strings.Replace(big, "[stages.oblivious]", "[telemetry]\nspool_bytes = 1_048_576\nspool = \"/nonexistent/spool\"\n[stages.oblivious]", 1)
	small = strings.Replace(small, "epoch_bits = 26", "epoch_bits = 24\nkey = \"5-tuple\"", 1)
	capture := flowsCapture(t, 40_000)
	for _, c := range []struct {
		config string
		status int
		says   string
	}{{big, 0, ""}, {small, 1, "spool_bytes"}} {
		status, _, stderr := runReplay(t, "-c", writeFile(t, c.config), "--chain", "2", "--in", capture, "--records", t.TempDir())
		if status != c.status || !strings.Contains(stderr, c.says) {
			t.Errorf("status %d, want %d: %s", status, c.status, stderr)
		}
	}
}
