package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// twinTime, in the environment, is the time at which the first packet comes, for the process that has no assembly.
const twinTime = "WEIR_TEST_TWIN_TIME"

// TestTwins sends ten million packets through the whole graph, in the middle of a path, at its beginning and at its end, once with the assembly
// of all stages and once in a process built without any (the tag purego): frames, ports and records are the same, bit by bit.
func TestTwins(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	if at := os.Getenv(twinTime); at != "" {
		start, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(twinSum(t, start))
		return
	}
	plain := filepath.Join(t.TempDir(), "plain.test")
	build := exec.Command("go", "test", "-c", "-tags", "purego", "-o", plain, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Late enough for both to have learned their addresses before, and too early for these to age.
	start := nowTAI() + 100e9
	run := exec.Command(plain, "-test.run", "^TestTwins$", "-test.timeout", "30m")
	run.Env = append(os.Environ(), twinTime+"="+strconv.FormatInt(start, 10))
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	got := twinSum(t, start)
	if err := run.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if want, _, _ := strings.Cut(out.String(), "\n"); got != want {
		t.Errorf("with assembly %s, without %s", got, want)
	}
}

// twinSum says what became of ten million packets: the sum of their frames and ports, and that of the records, of each role.
func twinSum(t *testing.T, start int64) string {
	const each, epoch = 3_400_000, 1 << 30
	var said []string
	roles := []role{transit, source, sink}
	var rings []*ring
	var rows []*row
	for _, role := range roles { // all of them first: addresses are learned by the clock, before start
		r, u := openTwin(t, Graph{Name: "twin", Stages: allStages, Flows: 50_000, Stations: 1000, Role: role})
		rings, rows = append(rings, r), append(rows, u)
	}
	for i := range roles {
		r, u := rings[i], rows[i]
		for _, m := range u.chain.modules {
			if x, ok := m.Module.(*pint.Module); ok {
				x.Inline() // takes the batch's time
			}
		}
		frames, records := sha256.New(), sha256.New()
		packets, count := 0, 0
		for now := start; packets < each; now += epoch * 9 / 2 / (each / int64(len(r.frames))) { // four epochs and a half
			u.stream.write(r)
			r.pass(u.graph, u.stream, now)
			for _, addr := range r.frames {
				frames.Write(r.batch.Mem[addr : addr+128])
			}
			sumPackets(frames, r)
			packets += len(r.frames)
			for _, s := range u.sources {
				s.Collect(now, false, func(h *record.Header, body func([]byte) ([]byte, error)) {
					data, err := body(nil)
					if err != nil {
						t.Error(err)
					}
					if now < start+2*epoch {
						return // what was counted, or seen, while addresses were learned is in it
					}
					fmt.Fprintf(records, "%d %d", h.Kind, len(data))
					records.Write(data)
					count++
				})
			}
		}
		if count == 0 {
			t.Error("no records were compared")
		}
		if u.missed() != 0 {
			t.Errorf("%v packets were not measured", u.missed())
		}
		said = append(said, fmt.Sprintf("%d packets %.16x, %d records %.16x", packets, frames.Sum(nil), count, records.Sum(nil)))
	}
	return strings.Join(said, "; ")
}

// openTwin is open, with one subepoch and without candidates for heavy flows: which epochs disketch looks at to choose more follows from the one
// in which it began, and which of equally heavy flows it remembers from all that came before.
func openTwin(t *testing.T, g Graph) (*ring, *row) {
	t.Helper()
	r, err := newRing(1024, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.close() })
	configs, sketch := g.configs(), disketch.DefaultConfig()
	for i := range sketch.Fragments {
		sketch.Fragments[i].OneSubepoch, sketch.Fragments[i].Candidates = true, -1
	}
	configs["disketch"] = &sketch
	chain, err := newChain(g.Stages, configs, newEnv([]string{"p0", "p1"}, 1, g.Hash))
	if err != nil {
		t.Fatal(err)
	}
	u, err := g.newRow(context.Background(), r, chain, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.close)
	return r, u
}

// sumPackets adds what the stages noted of the last batch of a pass.
func sumPackets(sum hash.Hash, r *ring) {
	var line []byte
	for i := range r.batch.Pkts {
		p := &r.batch.Pkts[i]
		line = binary.LittleEndian.AppendUint64(line[:0], p.ID)
		line = binary.LittleEndian.AppendUint32(line, p.FlowHash)
		line = append(line, byte(p.OutPort), byte(p.Reason))
		sum.Write(line)
	}
}
