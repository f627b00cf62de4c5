package tables

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	official "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	p4 "github.com/weirswitch/weir/p4/tables/p4rt"
)

// sampleInfo is of a program that sample fits.
const sampleInfo = `
tables { preamble { id: 1 name: "ingress.keys" } action_refs { id: 11 } size: 1 }
tables { preamble { id: 2 name: "ingress.ports" } match_fields { id: 1 name: "port" bitwidth: 9 match_type: EXACT } action_refs { id: 10 } size: 64 }
tables { preamble { id: 3 name: "ingress.routes" } match_fields { id: 1 name: "dst" bitwidth: 32 match_type: LPM } action_refs { id: 12 } size: 64 }
tables { preamble { id: 4 name: "ingress.lengths" }
  match_fields { id: 7 name: "value" bitwidth: 8 match_type: TERNARY } match_fields { id: 8 name: "set" bitwidth: 1 match_type: EXACT }
  action_refs { id: 12 } size: 64 }
tables { preamble { id: 5 name: "ingress.ranges" } match_fields { id: 1 name: "q" bitwidth: 32 match_type: RANGE } action_refs { id: 10 } size: 2 }
actions { preamble { id: 10 name: "NoAction" } }
actions { preamble { id: 11 name: "ingress.set_keys" } params { id: 1 name: "p" bitwidth: 32 } params { id: 2 name: "q" bitwidth: 32 } }
actions { preamble { id: 12 name: "ingress.forward" } params { id: 1 name: "hop" bitwidth: 8 } }
registers { preamble { id: 20 name: "ingress.limit" } type_spec { bitstring { bit { bitwidth: 32 } } } size: 2 }
digests { preamble { id: 30 name: "heard" } }
`

func sampleProgram(t *testing.T) *Info {
	t.Helper()
	info, err := ReadInfo([]byte(sampleInfo))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestWriteRequest(t *testing.T) {
	got, err := sample().writeRequest(sampleProgram(t), Target{Device: 3, Election: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := new(p4.WriteRequest)
	err = prototext.Unmarshal([]byte(`
device_id: 3 election_id { low: 1 }
updates { type: MODIFY entity { table_entry { table_id: 1 is_default_action: true
  action { action { action_id: 11 params { param_id: 1 value: "\007" } params { param_id: 2 value: "\377\377\377\377" } } } } } }
updates { type: INSERT entity { table_entry { table_id: 2 match { field_id: 1 exact { value: "\003" } } action { action { action_id: 10 } } } } }
updates { type: INSERT entity { table_entry { table_id: 3 match { field_id: 1 lpm { value: "\n\001\000\000" prefix_len: 16 } }
  action { action { action_id: 12 params { param_id: 1 value: "\002" } } } } } }
updates { type: INSERT entity { table_entry { table_id: 3 action { action { action_id: 12 params { param_id: 1 value: "\003" } } } } } }
updates { type: INSERT entity { table_entry { table_id: 4 priority: 2
  match { field_id: 7 ternary { value: "\200" mask: "\200" } } match { field_id: 8 exact { value: "\001" } }
  action { action { action_id: 12 params { param_id: 1 value: "\001" } } } } } }
updates { type: INSERT entity { table_entry { table_id: 4 priority: 1 match { field_id: 8 exact { value: "\001" } }
  action { action { action_id: 12 params { param_id: 1 value: "\000" } } } } } }
updates { type: INSERT entity { table_entry { table_id: 5 priority: 2 match { field_id: 1 range { low: "\005" high: "\t" } } action { action { action_id: 10 } } } } }
updates { type: INSERT entity { table_entry { table_id: 5 priority: 1 action { action { action_id: 10 } } } } }
updates { type: MODIFY entity { register_entry { register_id: 20 index { index: 1 } data { bitstring: "\377\377\377\377" } } } }
updates { type: MODIFY entity { register_entry { register_id: 20 index { } data { bitstring: "\007" } } } }
updates { type: INSERT entity { packet_replication_engine_entry { clone_session_entry { session_id: 1 replicas { port: "\001\376" instance: 1 } } } } }
updates { type: INSERT entity { packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1
  replicas { port: "\000" instance: 1 } replicas { port: "\002" instance: 0 } } } } }
updates { type: INSERT entity { packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 2 replicas { port: "\001" instance: 0 } } } } }
updates { type: INSERT entity { digest_entry { digest_id: 30 config { max_timeout_ns: 1000000 max_list_size: 1 ack_timeout_ns: 1000000 } } } }
`), want)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("the request is\n%s\nwant\n%s", prototext.Format(got), prototext.Format(want))
	}
}

// TestWriteP4Runtime: both forms are read back to the same request, and the text does
// not change by itself.
func TestWriteP4Runtime(t *testing.T) {
	info := sampleProgram(t)
	want, err := sample().writeRequest(info, Target{Election: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, binary := range []bool{false, true} {
		var b bytes.Buffer
		if err := sample().WriteP4Runtime(&b, info, Target{Election: 1}, binary); err != nil {
			t.Fatal(err)
		}
		got, read := new(p4.WriteRequest), prototext.Unmarshal
		if binary {
			read = proto.Unmarshal
		}
		if err := read(b.Bytes(), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("binary %v: %v, read back as\n%s", binary, err, prototext.Format(got))
		}
		// The published messages of P4Runtime read the same, to the last field.
		published := new(official.WriteRequest)
		err := read(b.Bytes(), published)
		a, err2 := proto.MarshalOptions{Deterministic: true}.Marshal(published)
		o, err3 := proto.MarshalOptions{Deterministic: true}.Marshal(want)
		if err := errors.Join(err, err2, err3); err != nil || !bytes.Equal(a, o) || len(published.Updates) != len(want.Updates) ||
			published.Updates[0].GetEntity().GetTableEntry().GetTableId() != want.Updates[0].GetEntity().GetTableEntry().GetTableId() {
			t.Errorf("binary %v: by the published messages: %v, %d updates", binary, err, len(published.Updates))
		}
		if !binary && !strings.HasPrefix(b.String(), "election_id: {\n  low: 1\n}\nupdates: {\n  type: MODIFY\n") {
			t.Errorf("the text begins with\n%.100s", b.String())
		}
	}
}

// TestCheck: contents that do not fit the program are refused, all faults at once.
func TestCheck(t *testing.T) {
	info := sampleProgram(t)
	if err := info.Check(sample()); err != nil {
		t.Fatal(err)
	}
	c := sample()
	c.Defaults[0].Action.Params[0].Value = Number(1 << 32)
	c.Entries[0].Keys[0].Field = "gate"
	c.Entries[1].Keys[0].Match = Exact
	c.Entries[2].Action.Params = nil
	c.Entries[3].Priority = 0
	c.Entries[4].Keys = c.Entries[4].Keys[:1]
	c.Entries[5].Keys[0].High = Number(1 << 32)
	c.Entries = append(c.Entries, c.Entries[6],
		Entry{Table: "ingress.nowhere", Action: act("NoAction")},
		Entry{Table: "ingress.ports", Keys: c.Entries[0].Keys, Action: act("ingress.forward")})
	c.Registers = []Register{{"ingress.limit", 2, 0}, {"ingress.limit", 0, 1 << 32}, {"none", 0, 0}}
	c.Digests = []Digest{{"none"}}
	err := info.Check(c)
	if err == nil {
		t.Fatal("no fault is found")
	}
	for _, want := range []string{
		"action ingress.set_keys: 0x100000000 is too wide for p of 32 bits",
		"table ingress.ports: key 1 is port, not gate",
		"table ingress.routes: key dst is compared by LPM",
		"action ingress.forward has 1 parameters, not 0",
		"table ingress.lengths: an entry has priority 0",
		"table ingress.lengths has 2 keys, not 1",
		"table ingress.ranges: 0x5 is too wide for key q of 32 bits",
		"table ingress.ranges has room for 2 entries, not for 3",
		"the program has no table ingress.nowhere",
		"table ingress.ports has no action ingress.forward",
		"register ingress.limit has 2 cells, none of index 2",
		"register ingress.limit: 0x100000000 is too wide for its cells",
		"the program has no register none",
		"the program has no digest none",
	} {
		if !strings.Contains("\n"+err.Error()+"\n", "\n"+want+"\n") {
			t.Errorf("not found: %s", want)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 14 {
		t.Errorf("%d faults:\n%v", n, err)
	}
	if _, err := c.writeRequest(info, Target{}); err == nil {
		t.Error("a request is made of contents that do not fit")
	}
}

func TestReadInfo(t *testing.T) {
	for _, bad := range []string{"", "tables {", "tables: 3", "\xff\xff"} {
		if _, err := ReadInfo([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a P4Info", bad)
		}
	}
}
