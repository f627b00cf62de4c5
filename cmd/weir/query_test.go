package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
)

// TestQueryRefuses: a question that makes no sense is refused with what to write instead.
func TestQueryRefuses(t *testing.T) {
	dir := t.TempDir()
	var records []byte
	for sw := range uint32(2) {
		p, err := lds.NewPoint(lds.Config{Rows: 1, Columns: 4, Virtual: 1, IntervalNs: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		h := record.Header{Kind: record.LDS, Switch: sw, Name: []string{"s1", "s2"}[sw], Instance: uint16(1 - sw), Span: 1 << 30}
		if records, err = record.Append(records, &h, p.AppendBinary); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "s-00000001.records"), records, 0o600); err != nil {
		t.Fatal(err)
	}
	const between = "delay --from s1 --to s2"
	for line, want := range map[string]string{
		between:                                      "none left s1, none arrived at s2",
		between + " --last 1s":                       "none left s1, none arrived at s2",
		between + " --last -5s":                      "--last -5s: choose",
		between + " --confidence nan":                "--confidence NaN: choose",
		between + " --delta 0":                       "--delta 0: choose",
		between + " --flow 1.2.3.4:5>6.7.8.9:10_udp": "is no",
		between + " --weight 0 --flow 1.2.3.4:1>2.3.4.5:2|udp":  "--weight 0: choose 1 to 10000",
		between + " --weight -1 --flow 1.2.3.4:1>2.3.4.5:2|udp": "-1",
		"delay --from s1":           "--to: delay needs it",
		"delay --from s1:x --to s2": `weir: switch s1 has no port "x", as no record has the names of its ports: write its number`,
		"loss --from s3 --to s2":    `"s3" sent no records`,
		"volume":                    "no records",
		"heavy-hitters --theta 0":   "choose a share above 0",
	} {
		args := []string{"query", "--records", dir}
		for _, word := range strings.Fields(line) {
			args = append(args, strings.NewReplacer(">", " > ", "|", " ").Replace(word))
		}
		status, _, stderr := weir(args...)
		if (status == 0) != (want == "") || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want %q", line, status, stderr, want)
		}
	}
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
		{"volume --delta 0.1 --confidence 0.9", "choose one of them"}, {"heavy-hitters --theta 0", "choose a share"},
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

// TestQueryOfKeyedRecords: a folder of records under a network's key is asked with the key's file; without, the error says so.
func TestQueryOfKeyedRecords(t *testing.T) {
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "network.key")
	if status, _, stderr := weir("key", "new", key); status != 0 {
		t.Fatal(stderr)
	}
	family, err := config.LoadKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := oblivious.NewSampler(oblivious.Config{Kind: oblivious.NWPS, Unit: oblivious.Packets, Size: 10, Hash: family})
	if err != nil {
		t.Fatal(err)
	}
	sampler.Add(1, 100, &oblivious.Key{Version: 4})
	h := record.Header{Kind: record.Oblivious, Switch: 1, Name: "s1", Hash: family, Start: 1 << 40, Span: 1 << 30}
	b, err := record.Append(nil, &h, sampler.Sample().AppendBinary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "s-00000001.records"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	// A process of its own each, since this one has the key.
	ask := func(args ...string) (status int, out string) {
		cmd := weirCommand(append([]string{"query", "volume", "--records", dir}, args...)...)
		text, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(text)
	}
	if status, out := ask(); status == 0 || !strings.Contains(out, "1 records are under a network key that is not loaded: name its file with --key") {
		t.Errorf("status %d: %s", status, out)
	}
	if status, out := ask("--key", key); status != 0 || !strings.Contains(out, "s1") {
		t.Errorf("status %d: %s", status, out)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if status, out := ask("--key", key); status != statusUsage || !strings.Contains(out, "chmod 600") {
		t.Errorf("status %d: %s", status, out)
	}
}

// TestQueryOfKeptLabWithCollector: where a lab's collector took the records, the answer from the folder next to them says where they are.
func TestQueryOfKeptLabWithCollector(t *testing.T) {
	dir := t.TempDir()
	ask := func(question ...string) string {
		out, err := weirCommand(append([]string{"query", "--records", dir}, question...)...).CombinedOutput()
		if err == nil {
			t.Errorf("an empty folder gave an answer: %s", out)
		}
		return string(out)
	}
	if out := ask("volume"); strings.Contains(out, "collector has what it took") {
		t.Errorf("%s", out)
	}
	kept := filepath.Join(dir, "collector")
	if err := os.Mkdir(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, question := range [][]string{{"volume"}, {"network"}, {"delay", "--from", "s1", "--to", "s2"}} {
		out := ask(question...)
		if !strings.Contains(out, "no records in "+dir+": it is of a lab with [collector], whose collector has what it took in "+kept) || !strings.Contains(out, "weir collect") {
			t.Errorf("%s: %s", question, out)
		}
	}
	if out := ask("volume"); strings.Contains(out, "keys = ") {
		t.Errorf("a lab without a key: %s", out)
	}
	key := filepath.Join(dir, lab.KeyFile)
	if status, _, stderr := weir("key", "new", key); status != statusGood {
		t.Fatal(stderr)
	}
	if out := ask("volume"); !strings.Contains(out, fmt.Sprintf("data = %q and keys = [%q] (weir collect)", kept, key)) {
		t.Errorf("a lab with a key: %s", out)
	}
	// A configuration takes absolute names alone.
	relative := weirCommand("query", "volume", "--records", ".")
	relative.Dir = dir
	if out, _ := relative.CombinedOutput(); !strings.Contains(string(out), fmt.Sprintf("data = %q and keys = [%q] (weir collect)", kept, key)) {
		t.Errorf("of a relative folder: %s", out)
	}
}
