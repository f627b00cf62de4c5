package nic

import "fmt"

// Config is what a port needs of its interface. All ports need whole packets: each with its VLAN tag, and none
// joined from several.
type Config struct {
	// Queues is how many receive queues the port serves, from queue 0. 0 means Workers,
	// where the driver lets us choose, else all that there are.
	Queues  int
	Workers int // 0 stands for all queues
	// Generic: the XDP program does not run in the driver, so what that costs there does not matter.
	Generic bool
	// Symmetric asks for a hash that gives both directions of a flow the same queue.
	Symmetric bool
	// Poll: the worker does the interface's receive work, so interrupts wait for it.
	Poll bool
	// Copy: zero-copy is not asked for. Jumbo: packets may take several frames. Both matter to Grant alone.
	Copy, Jumbo bool
}

// wish is a value that a setting should have.
type wish struct {
	setting Setting
	value   string
	// or is the next best setting if this one cannot be changed.
	or *wish
	// lacking is what follows if neither can.
	lacking string
	// required: without it the port is not opened.
	required bool
}

// The deferral of a busy-polled interface. A round must outlast what a worker does between two polls, also when it
// is interrupted itself: once the kernel's own receive work has begun, it competes with the worker for the core.
const (
	pollRounds = "100"
	pollFlush  = "2000000" // 2 ms
)

// Serve returns how many queues a port serves, if the driver takes the number.
func (i *Interface) Serve(c Config) int {
	switch {
	case c.Queues != 0:
		return c.Queues
	case c.Workers == 0 || !i.Queues.Settable || i.Queues.Max == 0:
		return i.Queues.Receive
	}
	n, most := min(c.Workers, i.Queues.Max), i.Queues.Max
	if c.Generic {
		return n
	}
	facts := drivers[i.Driver]
	if facts.halfQueues {
		n = min(n, max(most/2, 1))
	}
	// Queues that come with the XDP program receive too, and cannot be removed before it is. They do not come if there
	// would be too many then.
	if facts.perProcessor && n+i.processors <= most {
		n = most - i.processors + 1
	}
	return n
}

// most is how many queues a port could serve at most.
func (i *Interface) most() int {
	if i.Queues.Settable && i.Queues.Max != 0 {
		return i.Queues.Max
	}
	return i.Queues.Receive
}

// wishes lists all settings that matter to a port with the values that they should have, also those that
// have them already.
func (i *Interface) wishes(c Config) []wish {
	var all []wish
	off := func(lacking string, names ...Setting) {
		for _, name := range names {
			all = append(all, wish{setting: name, value: Off, lacking: lacking})
		}
	}
	if i.Driver != vethDriver {
		off("packets arrive without their VLAN tags, so the port is good for untagged packets alone", "rx-vlan-hw-parse", "rx-vlan-stag-hw-parse")
		for _, filter := range []Setting{"rx-vlan-filter", "rx-vlan-stag-filter"} {
			if !i.Features[string(filter)].Fixed { // else promiscuous mode lifts it
				off("packets of VLANs that the kernel does not use on the interface may not arrive", filter)
			}
		}
	}
	off("packets may arrive joined, longer than the MTU, and are then dropped", "rx-lro", "rx-gro-hw")
	if i.HeaderSplit == On {
		off("the kernel refuses the XDP program", HeaderSplit)
	}
	if w := i.queueWish(i.Serve(c)); w != nil {
		all = append(all, *w)
	}
	if c.Symmetric {
		lacking := "the two directions of a flow may arrive on different queues, and so at different workers"
		key := &wish{setting: Key, value: symmetricKey(len(i.RSS.Key) / 2), lacking: lacking}
		if i.RSS.Function != functions[functionToeplitz] || i.RSS.Key == "" {
			key = nil
		}
		all = append(all, wish{setting: Transform, value: symmetricXOR, or: key, lacking: lacking})
	}
	if c.Poll {
		const lacking = "set busy_poll = 0 to do without"
		all = append(all,
			wish{setting: DeferRounds, value: pollRounds, lacking: lacking, required: true},
			wish{setting: DeferFlush, value: pollFlush, lacking: lacking, required: true})
	}
	return all
}

// QueueRange names queues: "queue 1", "queues 1 to 3".
func QueueRange(first, last int) string {
	if first == last {
		return fmt.Sprintf("queue %d", first)
	}
	return fmt.Sprintf("queues %d to %d", first, last)
}

// addedQueues tells of queues that come with the XDP program and have no socket; nil if there are none.
func (i *Interface) addedQueues(c Config) *Refusal {
	n := i.Serve(c)
	if c.Generic || !drivers[i.Driver].perProcessor || n+i.processors > i.Queues.Max {
		return nil
	}
	return &Refusal{string(Channels), fmt.Sprintf("the driver adds a queue for each of %d processors to the XDP program: packets on %s go to the kernel, "+
		"counted as no_socket; set queues = %d", i.processors, QueueRange(n, n+i.processors-1), i.Queues.Max-i.processors+1)}
}

// queueWish has packets arrive on n queues alone: there are no more, or RSS uses no others. It is nil where
// nothing can be set.
func (i *Interface) queueWish(n int) *wish {
	w := &wish{setting: Channels, value: i.counts.serving(n).String()}
	if n < i.Queues.Receive {
		w.lacking = fmt.Sprintf("packets on %s go to the kernel, counted as no_socket", QueueRange(n, i.Queues.Receive-1))
		if i.RSS.Size != 0 {
			w.or = &wish{setting: Spread, value: equalText(n), lacking: w.lacking}
		}
	} else {
		w.lacking = fmt.Sprintf("the port serves the %d queues that there are", i.Queues.Receive)
	}
	switch {
	case i.Queues.Settable:
		return w
	case w.or != nil:
		return w.or
	case n < i.Queues.Receive && i.Driver == vethDriver:
		// Whether anything arrives there is for the peer to choose.
		return nil
	case n < i.Queues.Receive:
		return w
	}
	return nil
}
