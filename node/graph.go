package node

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/stages/sflow"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/local"
)

// chain is the graph that the workers run.
func (n *Node) chain() []pipeline.Named { return n.sw.Chain() }

// followBlocks has the log follow what guards among some modules block.
func (n *Node) followBlocks(chain []pipeline.Named) {
	for _, stage := range chain {
		if blocker, ok := stage.Module.(pipeline.Blocker); ok {
			blocker.OnBlock(n.logBlock)
		}
	}
}

// sourcesOf are the modules that make records.
func sourcesOf(chain []pipeline.Named) (sources []export.Source) {
	for _, stage := range chain {
		if source, ok := stage.Module.(export.Source); ok {
			sources = append(sources, source)
		}
	}
	return sources
}

// graphChange is the part of a change that concerns the graph; nil: it stays as it is.
//
//	changeGraph  stages that come are made, with what they need beside the packet path
//	install      the workers have the graph; what stages measured that went is collected
type graphChange struct {
	n           *Node
	next        *config.Config
	chain, come []pipeline.Named
	change      *worker.GraphChange
	sflow       []net.Conn // of a stage sflow that comes
	digests     *local.Digests
}

// changeGraph makes another graph ready. chain is what config.Prepare has made of it; nil: the graph stays.
func (n *Node) changeGraph(chain []pipeline.Named, next *config.Config) (*graphChange, error) {
	if chain == nil {
		return nil, nil
	}
	g := &graphChange{n: n, next: next, chain: chain, come: without(chain, n.chain())}
	stages.FollowRoutes(g.come, chain)
	n.followBlocks(g.come)
	n.joinPorts(g.come)
	var err error
	if g.sflow, err = n.openSFlow(g.come); err != nil {
		return nil, err
	}
	if n.digests.Load() == nil {
		if g.digests, err = NewDigests(next.Telemetry, g.come); err != nil {
			return nil, errors.Join(err, closeAll(g.sflow))
		}
	}
	if g.change, err = n.sw.ChangeGraph(chain); err != nil {
		return nil, errors.Join(fmt.Errorf("switch.graph: %w", err), closeAll(g.sflow))
	}
	return g, nil
}

// without are the modules of some that are not among others.
func without(some, others []pipeline.Named) (left []pipeline.Named) {
	for _, n := range some {
		if !slices.ContainsFunc(others, func(o pipeline.Named) bool { return o.Module == n.Module }) {
			left = append(left, n)
		}
	}
	return left
}

func (g *graphChange) abort() error {
	if g == nil {
		return nil
	}
	return errors.Join(g.change.Abort(), closeAll(g.sflow))
}

// install has the workers run the graph. An error says that they run the one of before.
func (g *graphChange) install() error {
	if g == nil {
		return nil
	}
	n := g.n
	if m, ok := moduleOf[*pint.Module](g.come); ok && g.digests == nil && n.digests.Load() != nil {
		plans, switches, links := m.Decoding()
		n.digests.Load().Read(local.Config{Plans: plans, Switches: switches, Topology: links})
	}
	if g.digests != nil {
		n.digests.Store(g.digests)
	}
	n.path.Add(g.digests.Local(), sourcesOf(g.come)...)
	went, err := g.change.Install()
	if err != nil {
		n.path.Remove(clock.Kernel.TAI(), sourcesOf(g.come)...)
		return errors.Join(fmt.Errorf("switch.graph: the graph stays as it is, all else is in force: %w", err), closeAll(g.sflow))
	}
	n.path.Remove(clock.Kernel.TAI(), sourcesOf(went)...)
	stages.FollowRoutes(without(g.chain, g.come), g.chain)
	for _, stage := range went {
		if l, ok := stage.Module.(pipeline.Leaver); ok {
			l.Leave()
		}
	}
	if _, left := moduleOf[*sflow.Module](went); left {
		err, n.sflow = closeAll(n.sflow), nil
	}
	n.sflow = append(n.sflow, g.sflow...)
	select {
	case n.graphChanged <- struct{}{}:
	default:
	}
	n.log.Info("the graph has changed", zap.Strings("graph", g.next.Switch.Graph), zap.Duration("paused", g.change.Paused), zap.Error(err))
	return nil
}

// without is the next configuration with the graph of another one.
func (g *graphChange) without(old *config.Config) *config.Config {
	c := *g.next
	c.Switch.Graph, c.Stages = old.Switch.Graph, map[string]any{}
	for _, name := range old.Switch.Graph {
		if c.Stages[name] = g.next.Stages[name]; c.Stages[name] == nil {
			c.Stages[name] = old.Stages[name]
		}
	}
	return &c
}
