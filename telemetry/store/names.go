package store

import (
	"maps"
	"strconv"

	"github.com/weirswitch/weir/internal/printable"
)

// names are those of switches, each of one switch only.
type names struct {
	owner  map[string]uint32
	bound  map[uint32]string // by credentials
	count  map[uint32]int    // names that a switch took
	denied map[uint32]string // the last name of another one that a switch used
}

// maxNames is how many names a switch may have in its life.
const maxNames = 4

// The bounds of what is remembered of names, which come from outside.
const (
	maxOwners = 1 << 14
	maxDenied = 1 << 12
)

func newNames(bound map[uint32]string) names {
	n := names{owner: map[string]uint32{}, bound: maps.Clone(bound), count: map[uint32]int{}, denied: map[uint32]string{}}
	for sw, name := range bound {
		n.owner[name] = sw
	}
	return n
}

// of is the name under which a switch that calls itself so is shown: that name, unless another switch has it; then
// the one that its credentials say, or none. A name is of the switch that credentials bind to it, else
// of the first that uses it. The number of another switch is no name, nor is what no configuration allows: it
// may look like the name of another one.
func (n *names) of(sw uint32, name string) (shown string, own bool) {
	if name == "" {
		return n.bound[sw], false
	}
	owner, taken := n.owner[name]
	if taken && owner == sw {
		return name, true
	}
	number, err := strconv.ParseUint(name, 10, 32)
	if taken || !printable.IsName(name) || err == nil && uint32(number) != sw || n.count[sw] >= maxNames || len(n.owner) >= maxOwners {
		if len(n.denied) < maxDenied {
			n.denied[sw] = name
		}
		return n.bound[sw], false
	}
	n.owner[name] = sw
	n.count[sw]++
	return name, true
}

// DeniedNames are the names of others under which switches sent records, by number.
func (l *Live) DeniedNames() map[uint32]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.names.denied)
}
