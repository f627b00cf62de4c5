package lab

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/relay"
)

// Check is one equation that must hold once a lab has come to rest.
type Check struct {
	What  string `json:"what"`
	Left  uint64 `json:"left"`
	Right uint64 `json:"right"`
	// Terms spells the sum on the right.
	Terms string `json:"terms"`
	OK    bool   `json:"ok"`
	// AtMost: Left may be less than Right.
	AtMost bool `json:"at_most,omitempty"`
	// Line of the lab file has the switch or the link; 0: none has it alone.
	Line int `json:"line,omitempty"`
}

// Account says whether every counter of the lab adds up.
type Account struct {
	Checks []Check `json:"checks"`
	// Lost counts packets that a switch, or the kernel before it, dropped, by
	// "switch: reason"; expected drops are not among them.
	Lost map[string]uint64 `json:"lost"`
	// Faults are what no equation can say: a switch that died, or has no report.
	Faults []string `json:"faults"`

	lines map[string]int // of the lab file, by switch
	// atCuts counts what was lost at cables that loads cut: in front of them, on them, and by their relays, which have that in their own counters too.
	atCuts, byRelays uint64
}

// OK reports whether everything adds up and nothing was lost.
func (a *Account) OK() bool {
	return len(a.Lost) == 0 && len(a.Faults) == 0 && !slices.ContainsFunc(a.Checks, func(c Check) bool { return !c.OK })
}

// kernelCounters are the kernel's counters of hosts and bridges, by endpoint
// as in the links: "h1", "b1:p0".
type kernelCounters map[string]netns.Counters

// readCounters reads the counters of every end that is a kernel's.
func (l *Lab) readCounters() (kernelCounters, error) {
	counters := kernelCounters{}
	for _, link := range l.config.Links {
		for _, endpoint := range link.Endpoints {
			end := l.cableEnd(endpoint)
			if l.node(end.node).runs() {
				continue
			}
			c, err := end.ns.Counters(end.iface)
			if err != nil {
				return nil, err
			}
			counters[endpoint] = c
		}
	}
	return counters, nil
}

// The lab is at rest if its counters stay the same for settleQuiet and settleLooks readings: on a busy machine a
// packet, like this goroutine, may wait that long for a core.
const (
	settleQuiet = 300 * time.Millisecond
	settleLooks = 15
	settleWait  = time.Minute // at most
)

// settle stops what the hosts' kernels would say by themselves, and waits until no counter moves.
func (l *Lab) settle(ctx context.Context) error {
	for _, h := range l.config.Hosts {
		if _, err := l.spaces[h.Name].FreezeNeighbours(hostInterface); err != nil {
			return err
		}
	}
	before, err := l.readCounters()
	if err != nil {
		return err
	}
	since, looks, deadline := time.Now(), 0, time.Now().Add(settleWait)
	for (time.Since(since) < settleQuiet || looks < settleLooks) && time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		now, err := l.readCounters()
		if err != nil {
			return err
		}
		looks++
		if !equalCounters(before, now) {
			before, since, looks = now, time.Now(), 0
		}
	}
	return nil
}

func equalCounters(a, b kernelCounters) bool {
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

// account draws up the equations from the kernel's counters, those once the switches have ended, and the switches' last
// words.
func account(c *Config, kernel, late kernelCounters, ends []SwitchEnd) Account {
	a := Account{Lost: map[string]uint64{}, lines: map[string]int{}}
	reports := map[string]*SwitchReport{}
	for i := range ends {
		e := &ends[i]
		a.lines[e.Name] = c.Line(e.Name)
		if !e.Exit.Clean {
			a.fault(e.Name, "switch %s did not end cleanly: %s", e.Name, e.Exit.Status)
		}
		if e.Log != "" {
			a.fault(e.Name, "the log of switch %s ends: %s", e.Name, e.Log)
		}
		if e.Report == nil {
			a.fault(e.Name, "switch %s: %s", e.Name, e.Fault)
			continue
		}
		reports[e.Name] = e.Report
		a.checkSwitch(c, e.Name, e.Report)
	}
	for _, link := range c.Links {
		cut := c.isCut(link.Endpoints[0]) || c.isCut(link.Endpoints[1])
		a.checkCable(kernel, late, reports, link.line, link.Endpoints[0], link.Endpoints[1], cut)
		a.checkCable(kernel, late, reports, link.line, link.Endpoints[1], link.Endpoints[0], cut)
	}
	a.checkCuts(c, reports)
	a.checkPlans(ends)
	return a
}

// checkPlans finds switches whose plan of PINT is not that of the first switch with a plan of this id: what they write into
// digests means something else.
func (a *Account) checkPlans(ends []SwitchEnd) {
	type owner struct{ name, digest string }
	first := map[uint16]owner{}
	for _, e := range ends {
		if e.Report == nil || e.Report.Pint == nil {
			continue
		}
		for _, p := range e.Report.Pint.Plans {
			if o, known := first[p.ID]; !known {
				first[p.ID] = owner{e.Name, p.Digest}
			} else if o.digest != p.Digest {
				a.fault(e.Name, "plan %d of %s (%s) is not that of %s (%s): give all switches the same file", p.ID, e.Name, p.Digest, o.name, o.digest)
			}
		}
	}
}

// What a switch loses packets by in front of a cable that is cut.
const portDown, droppedByDevice = "port_down", "dropped by the device"

// What a switch that gets no processor in time loses packets by.
const rxRingFull, rxNoFrame = "RX ring full", "no free frame"

// checkSwitch holds what a switch received, and what it copied, against what became of it.
func (a *Account) checkSwitch(c *Config, name string, r *SwitchReport) {
	a.checkFate(name, name+" received", r.Received, r.Forwarded, r.Consumed, r.droppedTotal())
	if r.Copies.Received != 0 {
		a.checkFate(name, name+" copied", r.Copies.Received, r.Copies.Forwarded, r.Copies.Consumed, sum(r.Copies.Dropped))
	}
	if !r.Balanced {
		a.fault(name, "switch %s says itself that its counters do not add up", name)
	}
	if r.Frames.Lost != 0 {
		a.fault(name, "switch %s lost %d of %d frames of memory", name, r.Frames.Lost, r.Frames.Total)
	}
	cut := c.cutPorts(name)
	for _, dropped := range []map[string]uint64{r.Dropped, r.Copies.Dropped} {
		for reason, n := range dropped {
			switch {
			case n == 0 || reason == relay.DropReason || slices.Contains(c.ExpectedDrops, reason):
			case reason == portDown && len(cut) > 0:
				a.atCuts += n
			default:
				a.Lost[name+": "+reason] += n
			}
		}
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		for reason, n := range map[string]uint64{
			rxRingFull: p.RxRingFull, rxNoFrame: p.RxNoFrame, "dropped by the kernel": p.RxDropped,
			droppedByDevice: p.LinkTxDrops,
		} {
			if n != 0 && slices.Contains(cut, p.Name) && reason == droppedByDevice {
				a.atCuts += n
			} else if n != 0 {
				a.Lost[name+" "+p.Name+": "+reason] = n
			}
		}
	}
}

// fault adds what no equation can say of a switch, with its line of the lab file.
func (a *Account) fault(name, format string, args ...any) {
	a.Faults = append(a.Faults, fmt.Sprintf(format, args...)+InFile(a.lines[name]))
}

func (a *Account) checkFate(name, what string, all, forwarded, consumed, dropped uint64) {
	sum := forwarded + consumed + dropped
	a.Checks = append(a.Checks, Check{
		What: what + " = forwarded + consumed + dropped",
		Left: all, Right: sum,
		Terms: fmt.Sprintf("%d + %d + %d", forwarded, consumed, dropped),
		OK:    all == sum,
		Line:  a.lines[name],
	})
}

// checkCable holds what one end sent against what the other received. A cable between
// two kernels has but one counter, which both ends show. What a switch sent last may wait for a core before its host counts it,
// until the switch has ended.
func (a *Account) checkCable(kernel, late kernelCounters, reports map[string]*SwitchReport, line int, from, to string, cut bool) {
	sent, ok := sentBy(kernel, reports, from)
	if !ok {
		return // its switch has no report, which is a fault already
	}
	check := Check{What: fmt.Sprintf("%s sent = %s received", from, to), Left: sent, Line: line}
	if c, ok := kernel[to]; ok {
		if l, ok := late[to]; ok && l.RxPackets == sent {
			c = l
		}
		check.Right, check.Terms = c.RxPackets, fmt.Sprint(c.RxPackets)
	} else {
		p := findPort(reports, to)
		if p == nil {
			return
		}
		check.Right = p.Received + p.Kept + p.missed()
		check.Terms = fmt.Sprintf("%d", p.Received)
		if p.Kept != 0 {
			check.Terms += fmt.Sprintf(" + %d kept by the kernel", p.Kept)
		}
		if p.missed() != 0 {
			check.Terms += fmt.Sprintf(" + %d missed", p.missed())
		}
	}
	// A kernel can say something unasked (a listener report that waited for a core) after its counters were read, and a switch that has not ended receives it.
	if l, ok := late[from]; ok && check.Left < check.Right && check.Right <= l.TxPackets {
		check.Left = check.Right
	}
	check.OK = check.Left == check.Right
	if cut && check.Left > check.Right {
		a.atCuts += check.Left - check.Right
		check.What = fmt.Sprintf("%s received <= %s sent, as it was cut", to, from)
		check.Left, check.Right, check.AtMost, check.OK = check.Right, sent, true, true
		check.Terms = fmt.Sprint(sent)
	}
	a.Checks = append(a.Checks, check)
}

// checkCuts holds what was lost at cables that were cut against what can have been on its way.
func (a *Account) checkCuts(c *Config, reports map[string]*SwitchReport) {
	for i := range c.Relays {
		r := &c.Relays[i]
		if report := reports[r.Name]; report != nil && r.link != nil && r.link.Loss == 0 && r.link.Rate == 0 && c.isCut(r.Name+":a") {
			a.byRelays += report.Dropped[relay.DropReason]
		}
	}
	if most := c.mostCut(); most > 0 {
		lost := a.atCuts + a.byRelays
		a.Checks = append(a.Checks, Check{What: "lost at cables that were cut <= on their way", Left: lost, Right: most, Terms: fmt.Sprint(most), AtMost: true, OK: lost <= most})
	}
}

// cutPorts are the ports of a node at cables that loads cut.
func (c *Config) cutPorts(node string) (ports []string) {
	for _, end := range c.portEnds(node) {
		if c.isCut(node + ":" + end.name) {
			ports = append(ports, end.name)
		}
	}
	return ports
}

func sentBy(kernel kernelCounters, reports map[string]*SwitchReport, endpoint string) (uint64, bool) {
	if c, ok := kernel[endpoint]; ok {
		return c.TxPackets, true
	}
	if p := findPort(reports, endpoint); p != nil {
		return p.Transmitted, true
	}
	return 0, false
}

func findPort(reports map[string]*SwitchReport, endpoint string) *PortReport {
	node, port := splitEndpoint(endpoint)
	if r := reports[node]; r != nil {
		for i := range r.Ports {
			if r.Ports[i].Name == port {
				return &r.Ports[i]
			}
		}
	}
	return nil
}
