package bond

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// DistributeConfig is [stages.distribute], which has no keys.
type DistributeConfig struct {
	_ byte
}

// DefaultDistributeConfig returns the configuration.
func DefaultDistributeConfig() DistributeConfig { return DistributeConfig{} }

// Validate implements stages.Kind.
func (*DistributeConfig) Validate([]string) error { return nil }

// Distribute is the stage distribute of one switch. Its tables are those of the stage bond.
type Distribute struct {
	module *Module
	stages []*distributor // by worker
}

// NewDistribute makes the module.
func NewDistribute(DistributeConfig, pipeline.Env) (*Distribute, error) { return &Distribute{}, nil }

// Join implements pipeline.Joined.
func (d *Distribute) Join(chain []pipeline.Named) error {
	found, behind := false, true
	for _, n := range chain {
		switch n.Module.(type) {
		case *Module:
			found = true
		case *Distribute:
			behind = false
		default:
			// What makes ports of other ports sends by bonds too.
			if !behind && (n.Name == "tag" || n.Name == "encap") {
				return fmt.Errorf("is in front of %q, which sends by bonds, too: move it behind that", n.Name)
			}
		}
	}
	if !found {
		return errors.New("has no bonds: add \"bond\" directly behind \"parse\"")
	}
	return nil
}

// Role implements pipeline.Module: stages in front of it see bonds, those behind it members.
func (d *Distribute) Role() pipeline.Role { return pipeline.RoleEgress }

// Needs implements pipeline.Module: flows are told apart by their hash, and a bucket moves once its packets have left.
func (d *Distribute) Needs() packet.Needs { return packet.NeedFlowHash | packet.NeedDepth }

// TakesLarge implements pipeline.LargeTaker: the segments of a large packet are of its flow.
func (d *Distribute) TakesLarge() bool { return true }

// Stage implements pipeline.Module.
func (d *Distribute) Stage(w int) pipeline.Stage {
	s := &distributor{module: d.module, worker: w}
	if d.module == nil { // only where a module is made without a graph
		s.module = &Module{}
	}
	d.stages = append(d.stages, make([]*distributor, max(w+1-len(d.stages), 0))...)
	d.stages[w] = s
	return s
}

// moveGap is how long no packet of a bucket must come before it moves to another member while the one that it has is good: beyond what two links
// and the receiving side differ in delay.
const moveGap = int64(time.Millisecond)

// distributor is the stage of one worker.
type distributor struct {
	module  *Module
	*tables // of the present batch
	own     []own
	worker  int
}

// own is a bond as one worker distributes it: by now, where the tables say how it shall be.
type own struct {
	number  uint16
	pending int // buckets that are to move
	now     assignment
	last    [buckets]int64 // when a packet of a bucket came that is to move, or it was found that it has to; 0 of others
}

// Process implements pipeline.Stage.
func (s *distributor) Process(b *packet.Batch) {
	if t := s.module.tables.Load(); t != s.tables {
		s.adopt(t, b.Now)
	}
	if len(s.bonds) == 0 {
		return
	}
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if int(p.OutPort) >= len(s.roles) || p.Reason != 0 {
			continue
		}
		if r := &s.roles[p.OutPort]; r.kind == isBond {
			s.send(b, p, r.index)
		}
	}
}

func (s *distributor) send(b *packet.Batch, p *packet.Packet, index uint16) {
	o := &s.own[index]
	k := bucketOf(s.bonds[index].hash, b, p) & (buckets - 1) // BCE
	if o.pending != 0 && o.last[k] != 0 {
		o.move(k, s.bonds[index].targets[k], b)
	}
	if p.OutPort = o.now[k]; p.OutPort == packet.NoPort {
		p.OutPort = o.number
		b.Drop(p, packet.ReasonPortDown)
	}
}

// move moves a bucket that is to, if none of its packets can be on its way.
func (o *own) move(k, target uint16, b *packet.Batch) {
	now, member := o.now[k], int(o.now[k])
	waits := member < len(b.Depth) && b.Depth[member] != 0
	if now != packet.NoPort && (waits || b.Now-o.last[k] < moveGap) {
		o.last[k] = max(b.Now, 1)
		return
	}
	o.now[k], o.last[k] = target, 0
	o.pending--
}

// adopt begins to use other tables. Not for each batch.
func (s *distributor) adopt(t *tables, now int64) {
	s.tables = t
	if len(s.own) != len(t.bonds) {
		s.own = t.fresh[s.worker]
	}
	for i := range t.bonds {
		s.own[i].follow(&t.bonds[i], t.roles, now)
	}
}

// follow notes which buckets are to move, and moves those that cannot stay.
func (o *own) follow(b *bond, roles []role, now int64) {
	if o.number != b.number {
		o.number, o.pending = b.number, 0
		o.last = [buckets]int64{}
		o.now = b.targets
		return
	}
	for k := range o.now {
		member, target := o.now[k], b.targets[k]
		stays := member != packet.NoPort && int(member) < len(roles) && roles[member].kind == isMember && roles[member].usable
		switch {
		case member == target:
			if o.last[k] != 0 {
				o.last[k] = 0
				o.pending--
			}
		case !stays || target == packet.NoPort:
			if o.last[k] != 0 {
				o.pending--
			}
			o.now[k], o.last[k] = target, 0
		case o.last[k] == 0:
			o.last[k] = max(now, 1)
			o.pending++
		}
	}
}

// Explain implements pipeline.Explainer.
func (s *distributor) Explain(_ *packet.Batch, p *packet.Packet) string {
	if int(p.OutPort) >= len(s.roles) || s.roles[p.OutPort].kind != isMember || p.Reason != 0 {
		return ""
	}
	return fmt.Sprintf("leaves by %s, a member of %s", s.names[p.OutPort], s.names[s.bonds[s.roles[p.OutPort].index].number])
}
