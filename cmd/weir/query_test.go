package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/lds"
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
		between:                                      "",
		between + " --last 1s":                       "",
		between + " --last -5s":                      "--last -5s: choose",
		between + " --confidence nan":                "--confidence NaN: choose",
		between + " --delta 0":                       "--delta 0: choose",
		between + " --flow 1.2.3.4:5>6.7.8.9:10_udp": "is no",
		between + " --weight 0 --flow 1.2.3.4:1>2.3.4.5:2|udp":  "--weight 0: choose 1 to 10000",
		between + " --weight -1 --flow 1.2.3.4:1>2.3.4.5:2|udp": "-1",
		"delay --from s1":           "--to: delay needs it",
		"delay --from s1:x --to s2": "write its number",
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
