package tables

import (
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

func TestWriteCommands(t *testing.T) {
	var b strings.Builder
	if err := sample().WriteCommands(&b, []string{"calc", "calc_0"}); err != nil {
		t.Fatal(err)
	}
	const want = `set_crc32_parameters calc 0x1edc6f41 0xffffffff 0xffffffff true true
set_crc32_parameters calc_0 0x1edc6f41 0xffffffff 0xffffffff true true
table_set_default ingress.keys ingress.set_keys 0x7 0xffffffff
table_add ingress.ports NoAction 0x3 =>
table_add ingress.routes ingress.forward 0xa010000/16 => 0x2
table_add ingress.routes ingress.forward 0x0/0 => 0x3
table_add ingress.lengths ingress.forward 0x80&&&0x80 0x1 => 0x1 1
table_add ingress.lengths ingress.forward 0x0&&&0x0 0x1 => 0x0 2
table_add ingress.ranges NoAction 0x5->0x9 => 1
table_add ingress.ranges NoAction 0x0->0xffffffff => 2
register_write ingress.limit 1 4294967295
register_write ingress.limit 0 7
mirroring_add 1 510
mc_mgrp_create 1
mc_node_create 0 2
mc_node_associate 1 0
mc_node_create 1 0
mc_node_associate 1 1
mc_mgrp_create 2
mc_node_create 0 1
mc_node_associate 2 2
`
	if b.String() != want {
		t.Errorf("wrote\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := sample().OnlyEpochs().WriteCommands(&b, nil); err != nil || b.String() != "register_write ingress.limit 0 7\n" {
		t.Errorf("of an epoch: %q, %v", b.String(), err)
	}
}

func TestReadProgram(t *testing.T) {
	p, err := ReadProgram([]byte(`{"pipelines": [{}], "calculations": [
		{"name": "calc", "algo": "crc32"}, {"name": "calc_0", "algo": "crc32_custom"}, {"name": "calc_1", "algo": "crc32_custom"}]}`))
	if err != nil || strings.Join(p.CRC32C, " ") != "calc_0 calc_1" {
		t.Error(p, err)
	}
	for _, bad := range []string{"", "{}", "[]", `{"pipelines": 3}`} {
		if names, err := ReadProgram([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a program with %v", bad, names)
		}
	}
	if len(WeirCalculations(hash.CRC)) == 0 {
		t.Error("our program has no CRC-32C")
	}
}
