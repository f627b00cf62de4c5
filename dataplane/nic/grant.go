package nic

import (
	"cmp"
	"fmt"
	"strings"
)

// Grant is what a port would be granted on an interface, as far as that shows without opening it.
type Grant struct {
	Interface string `json:"interface"`
	Driver    string `json:"driver"`
	Native    bool   `json:"native"`    // the XDP program runs in the driver
	ZeroCopy  bool   `json:"zero_copy"` // packets are written into the port's frames by the device
	// WhyNot says why it is not native, or why it copies; empty if neither.
	WhyNot string `json:"why_not"`
	// MultiBuffer: packets may be longer than a frame (jumbo = true), in the mode granted.
	MultiBuffer bool `json:"multi_buffer"`
	// FrameSize is dataplane.frame_size, in bytes, that packets of the MTU need in zero-copy; 0: any.
	FrameSize int `json:"frame_size"`
	Queues    int `json:"queues"`
	// Changes are the settings that a port would change, and Obstacles those that it would have to and cannot.
	Changes   []Change  `json:"changes"`
	Obstacles []Refusal `json:"obstacles"`
	// Notes are sentences about the rest that matters.
	Notes []string `json:"notes"`
}

// Grant tells what a port of a configuration would be granted.
func (i *Interface) Grant(c Config) Grant {
	g := Grant{Interface: i.Name, Driver: i.Driver, Queues: i.Serve(c), Changes: []Change{}, Obstacles: []Refusal{}, Notes: []string{}}
	g.mode(i, c)
	most := i.most()
	if g.Queues > most {
		what := fmt.Sprintf("there can be %d: the port does not open; set queues = %d", most, most)
		if i.Queues.Max >= g.Queues { // a port leaves them as they are, and others may set them
			what = fmt.Sprintf("%s has %d: the port does not open; set queues = %d, or give the interface more (ethtool -L; it can have %d)", i.Name, most, most, i.Queues.Max)
		}
		g.Obstacles = append(g.Obstacles, Refusal{string(Channels), fmt.Sprintf("%d queues are configured and %s", g.Queues, what)})
	}
	if r := i.addedQueues(c); r != nil && g.Native {
		g.Obstacles = append(g.Obstacles, *r)
	}
	for _, w := range i.wishes(c) {
		if w.setting != Channels || g.Queues <= most {
			g.judge(i, &w)
		}
	}
	g.note(i)
	return g
}

// mode foresees how packets come.
func (g *Grant) mode(i *Interface, c Config) {
	facts := drivers[i.Driver]
	switch {
	case c.Generic:
		g.WhyNot = `mode = "generic" is configured`
	case facts.genericOnly != "":
		g.WhyNot = facts.genericOnly
	case !i.XDP.Known:
		g.WhyNot = "this kernel does not tell what drivers can (Linux 6.3 does)"
	case !i.XDP.Native || !i.XDP.Redirect:
		g.WhyNot = "the driver has no native XDP"
		if facts.noXDP != "" {
			g.WhyNot += " " + facts.noXDP
		}
	case !i.XDP.ZeroCopy:
		g.Native, g.WhyNot = true, "the driver has no zero-copy"
		if facts.noZeroCopy != "" {
			g.WhyNot += ": " + facts.noZeroCopy
		}
	default:
		g.Native, g.ZeroCopy = true, true
		if facts.needs != nil {
			g.WhyNot = facts.needs(i)
			g.ZeroCopy = g.WhyNot == ""
		}
	}
	switch {
	case g.ZeroCopy && c.Copy:
		g.ZeroCopy, g.WhyNot = false, `copy = "copy" is configured`
	case g.ZeroCopy && c.Jumbo && i.XDP.ZeroCopySegments <= 1:
		g.ZeroCopy, g.WhyNot = false, "jumbo = true is configured, and the driver has no packets of several frames in zero-copy"
	}
	switch {
	case g.ZeroCopy:
		g.MultiBuffer = i.XDP.MultiBuffer && i.XDP.ZeroCopySegments > 1
		if unit := facts.bufferUnit; unit != 0 && (frame2048/unit)*unit < i.MTU+overhead {
			g.FrameSize = 4096
		}
	case g.Native:
		g.MultiBuffer = i.XDP.MultiBuffer
	default:
		g.MultiBuffer = true // the kernel's own, for all drivers
	}
}

// frame2048 is what a device may use of a frame of 2048 bytes: the kernel keeps 256 for XDP. overhead is
// the Ethernet header and a VLAN tag.
const (
	frame2048 = 2048 - 256
	overhead  = 14 + 4
)

// judge sorts a wish into what would be changed and what stands in the way.
func (g *Grant) judge(i *Interface, w *wish) {
	now := i.value(w.setting)
	switch {
	case w.setting == Transform && !drivers[i.Driver].symmetric && w.or != nil:
		g.judge(i, w.or)
	case w.setting == Transform && !drivers[i.Driver].symmetric:
		g.Obstacles = append(g.Obstacles, Refusal{string(w.setting), "the device is not known to have it, nor a key to choose: " + w.lacking})
	case now == w.value:
	case i.Features[string(w.setting)].Fixed:
		g.Obstacles = append(g.Obstacles, Refusal{string(w.setting), errFixed.Error() + ": " + w.lacking})
	case now == "" && w.or != nil:
		g.judge(i, w.or)
	case now == "":
		g.Obstacles = append(g.Obstacles, Refusal{string(w.setting), "the driver has no such setting: " + w.lacking})
	default:
		g.Changes = append(g.Changes, Change{string(w.setting), now, w.value})
	}
}

// value is what a setting is now; empty where the interface does not have it.
func (i *Interface) value(s Setting) string {
	switch s {
	case Channels:
		return i.Queues.Channels
	case Spread:
		return i.RSS.Spread
	case Key:
		return i.RSS.Key
	case Transform:
		return i.RSS.Transform
	case HeaderSplit:
		return i.HeaderSplit
	case DeferRounds:
		return i.Rounds
	case DeferFlush:
		return i.Flush
	}
	return onOff(i.Features[string(s)].On)
}

// NoLink says that an interface cannot carry packets now, and what to do.
func (i *Interface) NoLink() string {
	return fmt.Sprintf("the link is down (ip link set dev %s up), or has no carrier (the cable, or the other end, which is to be up too)", i.Name)
}

// note adds what else an operator should know.
func (g *Grant) note(i *Interface) {
	add := func(format string, args ...any) { g.Notes = append(g.Notes, fmt.Sprintf(format, args...)) }
	if i.Program != 0 {
		add("the XDP program %d is attached: %s", i.Program, i.Holder.Remedy(i.Name))
	}
	if !i.Up {
		g.Notes = append(g.Notes, i.NoLink())
	}
	if i.Driver == vethDriver {
		g.notePeer(i, add)
	}
	if i.VirtualFunction {
		add("a virtual function: unless its host trusts it (ip link set PF vf N trust on, spoofchk off), packets to other addresses than its own neither arrive nor leave")
	}
	for _, name := range []string{"rx-vlan-filter", "rx-vlan-stag-filter"} {
		if f := i.Features[name]; f.On && f.Fixed {
			add("%s is on and fixed: the device may drop VLANs that the kernel does not use, unless it is promiscuous, as ports are that switch", name)
		}
	}
	if g.FrameSize != 0 {
		add("in zero-copy the driver takes buffers in steps of %d bytes: packets of the MTU need frames of %d bytes (dataplane.frame_size)", drivers[i.Driver].bufferUnit, g.FrameSize)
	}
	if text := drivers[i.Driver].note; text != "" {
		add("%s", text)
	}
	switch {
	case len(i.Held) == 0:
	case i.Left:
		add("a killed switch left %d changed settings: weir nic restore %s puts them back", len(i.Held), i.Name)
	default:
		add("a running switch has changed %d settings", len(i.Held))
	}
}

func (g *Grant) notePeer(i *Interface, add func(string, ...any)) {
	switch {
	case i.Peer == nil:
		add("the far end is in another namespace: without native XDP of Linux 6.8 it must send VLAN tags within the packets (ethtool -K FAR txvlan off), and it saves the port time if it computes checksums (tx off)")
	default:
		var on []string
		if i.Peer.Checksum {
			on = append(on, "leaves checksums to the port, which takes time (ethtool -K %[1]s tx off)")
		}
		if i.Peer.VLAN && !(g.Native && i.XDP.RxVLAN) { // else the XDP program puts them in
			on = append(on, "sends VLAN tags outside the packets (ethtool -K %[1]s txvlan off)")
		}
		if len(on) > 0 {
			add("the far end, %[1]s, "+strings.Join(on, " and "), i.Peer.Name)
		}
	}
}

// Short is a setting's value for a table: of keys and long tables the beginning.
func Short(value string) string {
	const most = 24
	if len(value) <= most {
		return value
	}
	return value[:most-3] + "..."
}

// Mode is the grant in words, as a port says it: "native, zero-copy".
func (g *Grant) Mode() string {
	switch {
	case g.ZeroCopy:
		return "native, zero-copy"
	case g.Native:
		return "native, copy"
	}
	return "generic, copy"
}

// String is the grant in one line.
func (g *Grant) String() string {
	parts := []string{fmt.Sprintf("%s: %s", cmp.Or(g.Driver, "no driver"), g.Mode())}
	if g.WhyNot != "" {
		parts[0] += " (" + g.WhyNot + ")"
	}
	queues := "1 queue"
	if g.Queues != 1 {
		queues = fmt.Sprintf("%d queues", g.Queues)
	}
	parts = append(parts, queues)
	if g.FrameSize != 0 {
		parts = append(parts, fmt.Sprintf("zero-copy needs frames of %d bytes", g.FrameSize))
	}
	for _, c := range g.Changes {
		parts = append(parts, fmt.Sprintf("changes %s from %s to %s", c.Name, Short(c.Was), Short(c.Is)))
	}
	for _, o := range g.Obstacles {
		parts = append(parts, "cannot change "+o.Name+": "+o.Why)
	}
	return strings.Join(parts, "; ")
}
