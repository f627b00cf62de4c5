package tables

import (
	"fmt"
	"io"
	"regexp"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	p4 "github.com/weirswitch/weir/p4/tables/p4rt"
)

// Target says which switch a write request is for.
type Target struct {
	Device   uint64
	Election uint64 // of the client that may write
}

// writeRequest is the contents as one request of P4Runtime, with the ids of the
// program, to which they must fit. P4Runtime knows no parameters of CRCs: these are the
// target's own.
func (c *Contents) writeRequest(info *Info, to Target) (*p4.WriteRequest, error) {
	if err := info.Check(c); err != nil {
		return nil, err
	}
	r := &p4.WriteRequest{DeviceId: to.Device, ElectionId: &p4.Uint128{Low: to.Election}}
	write := func(kind p4.Update_Type, e *p4.Entity) {
		r.Updates = append(r.Updates, &p4.Update{Type: kind, Entity: e})
	}
	for i := range c.Defaults {
		d := &c.Defaults[i]
		write(p4.Update_MODIFY, tableEntity(&p4.TableEntry{
			TableId: info.tables[d.Table].Preamble.Id, Action: info.action(&d.Action), IsDefaultAction: true,
		}))
	}
	lowest := c.lowestPriorities()
	for i := range c.Entries {
		write(p4.Update_INSERT, tableEntity(info.entry(&c.Entries[i], lowest)))
	}
	for _, x := range c.registers() {
		write(p4.Update_MODIFY, &p4.Entity{Entity: &p4.Entity_RegisterEntry{RegisterEntry: &p4.RegisterEntry{
			RegisterId: info.registers[x.Name].Preamble.Id, Index: &p4.Index{Index: int64(x.Index)},
			Data: &p4.P4Data{Data: &p4.P4Data_Bitstring{Bitstring: Number(x.Value).bytes()}},
		}}})
	}
	for _, x := range c.Clones {
		write(p4.Update_INSERT, replication(&p4.PacketReplicationEngineEntry{Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{
			CloneSessionEntry: &p4.CloneSessionEntry{SessionId: uint32(x.Session), Replicas: replicas(1, x.Port)},
		}}))
	}
	for i := range c.Groups {
		original, copies := c.Groups[i].nodes()
		write(p4.Update_INSERT, replication(&p4.PacketReplicationEngineEntry{Type: &p4.PacketReplicationEngineEntry_MulticastGroupEntry{
			MulticastGroupEntry: &p4.MulticastGroupEntry{
				MulticastGroupId: uint32(c.Groups[i].ID), Replicas: append(replicas(1, copies...), replicas(0, original...)...),
			},
		}}))
	}
	for _, x := range c.Digests {
		write(p4.Update_INSERT, &p4.Entity{Entity: &p4.Entity_DigestEntry{DigestEntry: &p4.DigestEntry{
			DigestId: info.digests[x.Name].Preamble.Id, Config: &p4.DigestEntry_Config{MaxTimeoutNs: digestTimeout, MaxListSize: 1, AckTimeoutNs: digestTimeout},
		}}})
	}
	return r, nil
}

// digestTimeout is how long a message waits for others, and the switch for an
// answer, in ns.
const digestTimeout = 1_000_000

func tableEntity(e *p4.TableEntry) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: e}}
}

func replication(e *p4.PacketReplicationEngineEntry) *p4.Entity {
	return &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: e}}
}

// replicas are copies for ports with a replication id.
func replicas(id uint32, ports ...int) (all []*p4.Replica) {
	for _, port := range ports {
		all = append(all, &p4.Replica{PortKind: &p4.Replica_Port{Port: Number(uint64(port)).bytes()}, Instance: id})
	}
	return all
}

// lowestPriorities are the largest numbers by table: P4Runtime prefers large ones,
// where BMv2's commands prefer small ones.
func (c *Contents) lowestPriorities() map[string]int {
	lowest := map[string]int{}
	for i := range c.Entries {
		e := &c.Entries[i]
		lowest[e.Table] = max(lowest[e.Table], e.Priority)
	}
	return lowest
}

func (i *Info) entry(e *Entry, lowest map[string]int) *p4.TableEntry {
	t := i.tables[e.Table]
	out := &p4.TableEntry{TableId: t.Preamble.Id, Action: i.action(&e.Action)}
	if e.Priority > 0 {
		out.Priority = int32(lowest[e.Table] - e.Priority + 1)
	}
	for n, f := range t.MatchFields {
		if m := match(f, &e.Keys[n]); m != nil {
			out.Match = append(out.Match, m)
		}
	}
	return out
}

// match is a key in P4Runtime, nil for one that leaves out what any value matches,
// as the specification wants it.
func match(f *p4config.MatchField, k *Key) *p4.FieldMatch {
	m := &p4.FieldMatch{FieldId: f.Id}
	switch k.Match {
	case Exact:
		m.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: k.Value.bytes()}}
	case LPM:
		if k.Prefix == 0 {
			return nil
		}
		m.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: k.Value.bytes(), PrefixLen: int32(k.Prefix)}}
	case Ternary:
		if k.Mask == (Value{}) {
			return nil
		}
		m.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: k.Value.bytes(), Mask: k.Mask.bytes()}}
	case Range:
		if k.Value == (Value{}) && k.High == ones(int(f.Bitwidth), int(f.Bitwidth)) {
			return nil
		}
		m.FieldMatchType = &p4.FieldMatch_Range_{Range: &p4.FieldMatch_Range{Low: k.Value.bytes(), High: k.High.bytes()}}
	}
	return m
}

func (i *Info) action(a *Action) *p4.TableAction {
	d := i.actions[a.Name]
	out := &p4.Action{ActionId: d.Preamble.Id}
	for n, p := range d.Params {
		out.Params = append(out.Params, &p4.Action_Param{ParamId: p.Id, Value: a.Params[n].Value.bytes()})
	}
	return &p4.TableAction{Type: &p4.TableAction_Action{Action: out}}
}

// WriteP4Runtime writes the request in protobuf's text form, or in its binary one.
func (c *Contents) WriteP4Runtime(w io.Writer, info *Info, to Target, binary bool) error {
	r, err := c.writeRequest(info, to)
	if err != nil {
		return err
	}
	var data []byte
	if binary {
		data, err = proto.MarshalOptions{Deterministic: true}.Marshal(r)
	} else {
		data, err = marshalText(r)
	}
	if err != nil {
		return fmt.Errorf("write the request: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// blanks are what the library puts at random behind the names of fields, so that
// its text is not compared: ours shall be the same each time.
var blanks = regexp.MustCompile(`(?m)^( *[a-z0-9_]+:?) +`)

func marshalText(m proto.Message) ([]byte, error) {
	text, err := prototext.MarshalOptions{Multiline: true}.Marshal(m)
	return blanks.ReplaceAll(text, []byte("$1 ")), err
}
