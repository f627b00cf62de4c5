package set

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/record"
)

// helloVersion is that of what members say of themselves.
const helloVersion = 3

// hello is what a member says once a second, and when anything of it changes.
type hello struct {
	Version int          `json:"v"`
	Name    string       `json:"name"`
	Boot    uint64       `json:"boot"`
	Holds   collect.Mask `json:"holds"`   // it answers for them
	Leaving bool         `json:"leaving"` // others are to take them
	// View is of which members the plan is that it follows.
	View uint64 `json:"view"`
	// Archives are the partitions that it archives: no other member begins to before it has put what it staged.
	Archives collect.Mask `json:"archives,omitempty"`
}

// The pace at which members find each other.
const (
	helloInterval = time.Second
	// gone is how long nothing is heard of a member that went without a word.
	gone = 5 * time.Second
	// settle is how long a member listens before it takes partitions that no member has.
	settle = 2 * time.Second
	// suspended is a pause between two steps in which others may have missed a member.
	suspended  = 2 * time.Second
	maxHello   = 1 << 10
	maxMembers = 4 * record.Partitions
	// handover is how long a member that leaves waits for others to take what it has: less than an operator waits for its end.
	handover = 2500 * time.Millisecond
)

// plan is who is to have which partition, as a member sees it.
type plan struct {
	m         *Member
	nc        *nats.Conn
	began     time.Time
	said      time.Time
	stepped   time.Time
	saidHolds collect.Mask
	saidView  uint64
	archives  collect.Mask // that were said

	mu    sync.Mutex
	heard map[string]*member // by name
}

// member is what was heard of another one.
type member struct {
	hello
	at time.Time
}

// share begins to listen to the other members.
func (m *Member) share(nc *nats.Conn) *plan {
	p := &plan{m: m, nc: nc, began: time.Now(), heard: map[string]*member{}}
	if err := jetstream.Listen(nc, jetstream.Members, maxHello, p.hear); err != nil {
		m.config.Log.Error("the other collectors of the set are not heard", zap.Error(err))
	}
	return p
}

// hear takes what a member says.
func (p *plan) hear(data []byte) {
	var h hello
	if err := strict(data, &h); err != nil || h.Version != helloVersion || !printable.IsName(h.Name) {
		p.m.counters.strange.Add(1)
		return
	}
	if h.Name == p.m.config.Name {
		if h.Boot != p.m.boot {
			p.m.counters.strange.Add(1)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard[h.Name] == nil && len(p.heard) >= maxMembers {
		p.m.counters.strange.Add(1)
		return
	}
	p.heard[h.Name] = &member{h, time.Now()}
}

// step says hello, and has the reader read what the plan gives to the member.
func (p *plan) step(now time.Time) {
	leaving := false
	select {
	case <-p.m.leave:
		leaving = true
	default:
	}
	if !p.nc.IsConnected() || now.Sub(p.stepped) > suspended {
		p.began = now // it has not heard the others, who may have taken what it had
	}
	p.stepped = now
	others := p.others(now)
	holds := p.m.Holds()
	archives := p.m.archives()
	names := []string{}
	if !leaving {
		names = append(names, p.m.config.Name)
	}
	archived := collect.Mask(0) // by others
	for _, o := range others {
		archived |= o.Archives
		if !o.Leaving {
			names = append(names, o.Name)
		}
	}
	view := viewOf(others, &hello{Name: p.m.config.Name, Boot: p.m.boot, Leaving: leaving})
	if now.Sub(p.said) >= helloInterval || holds != p.saidHolds || view != p.saidView || archives != p.archives || leaving {
		text, err := json.Marshal(hello{helloVersion, p.m.config.Name, p.m.boot, holds, leaving, view, archives})
		if err == nil && p.nc.Publish(jetstream.Members, text) == nil {
			p.said, p.saidHolds, p.saidView, p.archives = now, holds, view, archives
		}
	}
	p.m.mu.Lock()
	p.m.members = names
	p.m.mu.Unlock()
	if now.Sub(p.began) < settle && !leaving {
		return
	}
	owned, owners := collect.Mask(0), assign(names)
	for partition, owner := range owners {
		if owner == p.m.config.Name && (archives.Has(partition) || !archived.Has(partition)) {
			owned = owned.With(partition)
		}
	}
	p.m.config.Reader.Read(toRead(p.m.config.Name, &owners, holds, servedBy(others, view)))
	if p.m.config.Archive != nil {
		p.m.config.Archive.Own(owned)
	}
}

// toRead are the partitions that a member is to read: its own, and those of others that it holds until their owner answers for them and
// follows the same plan. By another plan it may be about to give them up as well.
func toRead(name string, owners *[record.Partitions]string, holds collect.Mask, served map[string]collect.Mask) (reads collect.Mask) {
	for partition, owner := range owners {
		if owner == name || holds.Has(partition) && !served[owner].Has(partition) {
			reads = reads.With(partition)
		}
	}
	return reads
}

// others are the members that are there, by name.
func (p *plan) others(now time.Time) (list []*member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, o := range p.heard {
		if now.Sub(o.at) > gone {
			delete(p.heard, name)
			continue
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *member) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// viewOf names what a member knows of all members, itself among them: it is the same where a plan of the same members, each there or
// leaving, is followed.
func viewOf(others []*member, self *hello) uint64 {
	lines := []string{self.line()}
	for _, o := range others {
		lines = append(lines, o.line())
	}
	slices.Sort(lines)
	return hash.Bytes(viewSeed, []byte(strings.Join(lines, "\n")))
}

func (h *hello) line() string { return fmt.Sprintf("%s %d %t", h.Name, h.Boot, h.Leaving) }

// servedBy are the partitions for which each member that follows the plan of a view answers, by its name.
func servedBy(others []*member, view uint64) map[string]collect.Mask {
	by := map[string]collect.Mask{}
	for _, o := range others {
		if o.View == view {
			by[o.Name] = o.Holds
		}
	}
	return by
}

// assign says who is to have each partition: of members, as few move as can be when one comes or goes, and none has more than
// its share, rounded up. All who know the same names find the same.
func assign(names []string) (owners [record.Partitions]string) {
	names = slices.Clone(names)
	slices.Sort(names)
	if len(names) == 0 {
		return owners
	}
	share := (record.Partitions + len(names) - 1) / len(names)
	load := map[string]int{}
	for partition := range owners {
		best, rank := "", uint64(0)
		for _, name := range names {
			if load[name] >= share {
				continue
			}
			if r := hash.Bytes(assignSeed, fmt.Appendf(nil, "%d %s", partition, name)); best == "" || r > rank {
				best, rank = name, r
			}
		}
		owners[partition] = best
		load[best]++
	}
	return owners
}

// The seeds are a part of the members' protocol.
const (
	assignSeed = 's'
	viewSeed   = 'v'
)

// archives are the partitions that the member archives.
func (m *Member) archives() collect.Mask {
	if m.config.Archive == nil {
		return 0
	}
	return m.config.Archive.Owns()
}

// Leave has others take the partitions of a member that is about to end, and waits for them for some seconds: Run must still run.
func (m *Member) Leave() {
	if !m.config.Share {
		return
	}
	m.mu.Lock()
	alone := len(m.members) < 2
	m.mu.Unlock()
	if nc := m.conn(); alone || nc == nil || !nc.IsConnected() {
		return
	}
	close(m.leave)
	for end := time.Now().Add(handover); time.Now().Before(end) && (m.Holds() != 0 || m.archives() != 0); time.Sleep(lookInterval / 4) {
		select {
		case <-m.left:
			return
		default:
		}
	}
}
