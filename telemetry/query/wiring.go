package query

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weirswitch/weir/telemetry/status"
	"github.com/weirswitch/weir/telemetry/store"
)

// wiring is what names of ports mean, by the newest statuses, and which ports the engine's links join. Each part is read when a question
// needs it first.
type wiring struct {
	e      *Engine
	newest func() map[uint32]*store.Status
	far    func() map[portAt]farEnd

	mu    sync.Mutex
	ports map[uint32][]status.Port
}

// portAt is a port by its number.
type portAt struct {
	sw   uint32
	port int
}

// farEnd is what a link leads to: a port of a switch, or what is none (a host).
type farEnd struct {
	portAt
	isSwitch bool
}

func newWiring(e *Engine) *wiring {
	w := &wiring{e: e, ports: map[uint32][]status.Port{}}
	w.newest = sync.OnceValue(func() map[uint32]*store.Status {
		newest := map[uint32]*store.Status{}
		for _, s := range e.Store.Statuses {
			if o := newest[s.Switch]; o == nil || o.From <= s.From {
				newest[s.Switch] = s
			}
		}
		return newest
	})
	w.far = sync.OnceValue(w.farEnds)
	return w
}

// wired is the wiring of the question, or a new one.
func (e *Engine) wired() *wiring {
	if e.wires == nil {
		return newWiring(e)
	}
	return e.wires
}

// relation is what the links say of what leaves a port of one switch and arrives at a port of another.
type relation uint8

const (
	unlinked relation = iota // nothing
	linked                   // the link joins both ports
	apart                    // the link of one of them leads to a host, or to the other switch's other port
)

func (w *wiring) relation(from, to portAt) relation {
	if from.sw == to.sw {
		return unlinked
	}
	beyond, known := w.far()[from]
	before, known2 := w.far()[to]
	switch {
	case known && beyond.isSwitch && beyond.portAt == to:
		return linked
	case known && (!beyond.isSwitch || beyond.sw == to.sw), known2 && (!before.isSwitch || before.sw == from.sw):
		return apart
	}
	return unlinked
}

// portsOf are the ports of a switch by its newest status; none: it sent none.
func (w *wiring) portsOf(sw uint32) []status.Port {
	w.mu.Lock()
	defer w.mu.Unlock()
	ports, known := w.ports[sw]
	if known {
		return ports
	}
	if s := w.newest()[sw]; s != nil {
		if decoded, err := s.Decode(); err == nil { // the store took what it could decode
			ports = decoded.Ports
		}
	}
	w.ports[sw] = ports
	return ports
}

// port finds a port by its name, as weir query network shows it, or by its number.
func (w *wiring) port(sw uint32, name string) (number int, ok bool) {
	ports := w.portsOf(sw)
	if i := slices.IndexFunc(ports, func(p status.Port) bool { return p.Name == name }); i >= 0 && name != "" { // a port that is no more has none
		return int(ports[i].Number), true
	}
	n, err := strconv.ParseUint(name, 10, 15)
	return int(n), err == nil
}

// mostNames bounds the ports that an error lists.
const mostNames = 64

// names lists the ports of a switch by their names, in the order of their numbers; empty: none are known.
func (w *wiring) names(sw uint32) string {
	var names []string
	for _, p := range w.portsOf(sw) {
		if p.Name == "" { // it is no more
			continue
		}
		if len(names) == mostNames {
			names = append(names, "...")
			break
		}
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

// farEnds lists both ends of each link whose ports are known.
func (w *wiring) farEnds() map[portAt]farEnd {
	far := map[portAt]farEnd{}
	for _, l := range w.e.Links {
		var ends [2]farEnd
		var unknown [2]bool // a port of a device that is no switch of ours
		for i, text := range l.Ends {
			name, port, hasPort := strings.Cut(text, ":")
			if !hasPort {
				continue
			}
			id, known := w.e.Store.Switch(name)
			number, ok := 0, false
			if known {
				number, ok = w.port(id, port)
			}
			ends[i], unknown[i] = farEnd{portAt{id, number}, ok}, !ok
		}
		for i := range ends {
			if ends[i].isSwitch && !unknown[1-i] {
				far[ends[i].portAt] = ends[1-i]
			}
		}
	}
	return far
}
