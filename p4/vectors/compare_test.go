package vectors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Difference is one thing that is not the same on both sides.
type Difference struct {
	Packet int    // its number, -1 for what is held behind the last one
	Field  string // "out by port 3, byte 17 (shim digest)", "disketch_egress.fragment_0.cells[77]"
	Want   string // what the Go stages give
	Got    string // what P4 gives
}

// String is the difference on one line.
func (d Difference) String() string {
	where := "registers"
	if d.Packet >= 0 {
		where = fmt.Sprintf("packet %d", d.Packet)
	}
	return fmt.Sprintf("%s: %s: Go has %s, P4 %s", where, d.Field, d.Want, d.Got)
}

// Compare lists all differences between what the Go stages gave (want) and what P4 gave.
func Compare(packets []Packet, want, got *Run) (list []Difference) {
	for i := range packets {
		c := comparison{packet: i}
		c.outputs(want.Results[i].Out, got.Results[i].Out)
		c.messages(want.Results[i].Messages, got.Results[i].Messages)
		list = append(list, c.list...)
	}
	c := comparison{packet: -1}
	if !slices.Equal(want.Writes, got.Writes) {
		c.differ("the control plane's writes", len(want.Writes), len(got.Writes))
	}
	c.state(want.State, got.State)
	return append(list, c.list...)
}

type comparison struct {
	packet int
	list   []Difference
}

func (c *comparison) differ(field string, want, got any) {
	c.list = append(c.list, Difference{c.packet, field, fmt.Sprint(want), fmt.Sprint(got)})
}

func (c *comparison) outputs(want, got []Output) {
	ports := func(all []Output) (list []uint16) {
		for _, o := range all {
			list = append(list, o.Port)
		}
		return list
	}
	if a, b := ports(want), ports(got); !slices.Equal(a, b) {
		c.differ("output ports", a, b)
		return
	}
	for i, o := range want {
		c.bytes(fmt.Sprintf("out by port %d", o.Port), o.Data, got[i].Data)
	}
}

// bytes reports the first byte that differs, and which header it is in.
func (c *comparison) bytes(what string, want, got []byte) {
	if bytes.Equal(want, got) {
		return
	}
	if len(want) != len(got) {
		c.differ(what+", length", len(want), len(got))
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			to := min(i+8, len(want), len(got))
			c.differ(fmt.Sprintf("%s, byte %d (%s)", what, i, fieldAt(want, i)), fmt.Sprintf("% x", want[i:to]), fmt.Sprintf("% x", got[i:to]))
			return
		}
	}
}

func (c *comparison) messages(want, got []Message) {
	kinds := func(all []Message) (list []int) {
		for _, m := range all {
			list = append(list, int(m.Kind))
		}
		return list
	}
	if a, b := kinds(want), kinds(got); !slices.Equal(a, b) {
		c.differ("kinds of messages", a, b)
		return
	}
	for i, w := range want {
		g := got[i]
		what := fmt.Sprintf("message of kind %d, ", w.Kind)
		for _, f := range []struct {
			name      string
			want, got uint64
		}{
			{"hop", uint64(w.Hop), uint64(g.Hop)}, {"plan", uint64(w.Plan), uint64(g.Plan)}, {"in_port", uint64(w.InPort), uint64(g.InPort)},
			{"out_port", uint64(w.OutPort), uint64(g.OutPort)}, {"digest", w.Digest, g.Digest}, {"id", w.ID, g.ID},
			{"arrival", uint64(w.Arrival), uint64(g.Arrival)},
		} {
			// What ingress has chosen so far is P4's own matter.
			if f.name == "out_port" && w.Kind&MessageRecord == 0 {
				continue
			}
			if f.want != f.got {
				c.differ(what+f.name, fmt.Sprintf("%#x", f.want), fmt.Sprintf("%#x", f.got))
			}
		}
		c.bytes(what+"packet", w.Data, g.Data)
	}
}

// maxCells is how many cells of a register are reported.
const maxCells = 8

func (c *comparison) state(want, got State) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w, g := want[name], got[name]
		if len(w) != len(g) {
			c.differ(name+", size", len(w), len(g))
			continue
		}
		n := 0
		for i := range w {
			if w[i] == g[i] || uint64(uint32(w[i])) == g[i] && narrow(name) {
				continue
			}
			if n++; n <= maxCells {
				c.differ(fmt.Sprintf("%s[%d]", name, i), fmt.Sprintf("%#x", w[i]), fmt.Sprintf("%#x", g[i]))
			}
		}
		if n > maxCells {
			c.differ(name, "equal cells", fmt.Sprintf("%d that differ", n))
		}
	}
}

// narrow says that a register has 32 bits.
func narrow(name string) bool { return len(name) > 6 && name[len(name)-6:] == ".cells" }

// fieldAt says which header's field a byte of a packet belongs to.
func fieldAt(data []byte, at int) string {
	switch {
	case at < 6:
		return "destination MAC address"
	case at < 12:
		return "source MAC address"
	}
	off := 12
	for off+2 <= len(data) {
		kind := binary.BigEndian.Uint16(data[off:])
		switch kind {
		case 0x8100, 0x88a8, 0x9100:
			if at < off+4 {
				return "VLAN tag"
			}
			off += 4
			continue
		case 0x88b5:
			if off+3 > len(data) {
				return "shim"
			}
			digest := int(data[off+2]&7) + 1
			for _, f := range []struct {
				end  int
				name string
			}{{2, "type"}, {3, "version and length"}, {4, "hop"}, {6, "plan"}, {6 + digest, "digest"}} {
				if at < off+f.end {
					return "shim " + f.name
				}
			}
			off += 6 + digest
			continue
		case 0x0800:
			for _, f := range []struct {
				end  int
				name string
			}{{4, "total length"}, {8, "identification"}, {9, "TTL"}, {12, "checksum"}, {20, "addresses"}} {
				if at >= off+2 && at < off+2+f.end {
					return "IPv4 " + f.name
				}
			}
		case 0x86dd:
			if at >= off+2 && at < off+42 {
				return "IPv6 header"
			}
		}
		if at < off+2 {
			return "EtherType"
		}
		return fmt.Sprintf("EtherType %#04x, behind it byte %d", kind, at-off-2)
	}
	return "link header"
}
