package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Stage says which stage is measured alone.
type Stage struct {
	Name string
	// Configs of stages by name, as config.Config has them; a stage without one has its default.
	Configs map[string]any
	// Ports by name, of which packets arrive at the first two; empty: p0 and p1.
	Ports []string
	// Hash is the switch's family of hashes.
	Hash hash.Family
	// Variants are further configurations of the stage.
	Variants []Variant
	// Flows and Stations of the packets, as in Graph.
	Flows, Stations int
}

// RunStage measures what one stage costs over the graph without it: over parse and patch, or over parse alone if
// it chooses the output port itself. What the parser computes only because the stage asks for it
// is part of that, and shown apart.
func RunStage(ctx context.Context, c Config, s Stage) (*bench.Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if len(s.Ports) == 0 {
		s.Ports = []string{"p0", "p1"}
	}
	if len(s.Ports) < ports {
		return nil, fmt.Errorf("a switch of %d ports forwards nothing: name two", len(s.Ports))
	}
	list, err := s.graphs()
	if err != nil {
		return nil, err
	}
	out := &bench.Result{Name: "stage/" + s.Name, Seed: c.Seed, Machine: bench.ThisMachine()}
	err = bench.InFavouredSession(func() error {
		return onCore(c.Core, func() error { return s.measure(ctx, &c, list, out) })
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// stageGraph is one of the graphs that a stage is measured by. Needs represent the stage: the parser works as
// if it were there.
type stageGraph struct {
	name   string
	stages []string
	needs  bool
	config any // of the stage; nil: Stage.Configs has it
}

// graphs are those without the stage, without it but for what the parser does for it, and with it.
func (s *Stage) graphs() ([]stageGraph, error) {
	if _, ok := stages.Kinds[s.Name]; !ok {
		return nil, fmt.Errorf("there is no stage %q: choose among %s", s.Name, strings.Join(stages.Names(), ", "))
	}
	m, err := newModule(s.Name, s.Configs[s.Name], s.env())
	if err != nil {
		return nil, fmt.Errorf("stage %q: %w", s.Name, err)
	}
	role := m.Role()
	without := []string{"parse", "patch"}
	switch role {
	case pipeline.RoleParse:
		without = nil
	case pipeline.RoleForward:
		without = []string{"parse"}
	}
	with := append([]string{"parse"}, s.Name)
	switch role {
	case pipeline.RoleParse:
		with = []string{s.Name}
	case pipeline.RoleIngress, pipeline.RolePolicy:
		with = []string{"parse", s.Name, "patch"}
	case pipeline.RoleEgress:
		with = []string{"parse", "patch", s.Name}
	}
	switch s.Name { // those that work only with others
	case "tunnel", "encap":
		with = []string{"parse", "tunnel", "patch", "encap"}
	case "vlan", "tag":
		with = []string{"parse", "vlan", "patch", "tag"}
	case "bond", "distribute":
		with = []string{"parse", "bond", "patch", "distribute"}
	case "irb": // with the router, without which there is none
		without, with = []string{"parse", "l2"}, []string{"parse", "l2", "l3", "irb"}
	}
	list := []stageGraph{{name: "without", stages: without}, {name: "with", stages: with}}
	if m.Needs() != 0 {
		list = slices.Insert(list, 1, stageGraph{name: "parser", stages: without, needs: true})
	}
	for _, v := range s.Variants {
		list = append(list, stageGraph{name: v.Name, stages: with, config: v.Config})
	}
	return list, nil
}

func (s *Stage) env() pipeline.Env { return newEnv(s.Ports, 1, s.Hash) }

func (s *Stage) measure(ctx context.Context, c *Config, list []stageGraph, out *bench.Result) (err error) {
	r, err := newRing(c.Frames, c.Seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	var rows []*row
	defer func() {
		for _, u := range rows {
			u.close()
		}
	}()
	for _, g := range list {
		u, err := s.open(ctx, c, r, g)
		if err != nil {
			return err
		}
		rows = append(rows, u)
	}
	steps := &progress{c.Progress, 0, c.Rounds * len(rows)}
	err = rounds(ctx, c, r, rows, func(round int, what string) { steps.step(fmt.Sprintf("round %d: %s", round+1, what)) })
	if err != nil {
		return err
	}
	s.report(out, list, rows)
	return nil
}

func (s *Stage) open(ctx context.Context, c *Config, r *ring, g stageGraph) (*row, error) {
	configs := (Graph{Stations: s.Stations}).configs()
	configs["patch"] = patchOf(s.Ports)
	for name, config := range s.Configs {
		if name == s.Name || name == "parse" {
			configs[name] = config
		}
	}
	if g.config != nil {
		configs[s.Name] = g.config
	}
	names := g.stages
	if g.needs {
		// A baseline that has the stage's needs and does nothing.
		m, err := newModule(s.Name, s.Configs[s.Name], s.env())
		if err != nil {
			return nil, err
		}
		names = slices.Insert(slices.Clone(names), 1, needing)
		configs[needing] = m.Needs()
	}
	chain, err := newChain(names, configs, s.env())
	if err != nil {
		return nil, err
	}
	graph := Graph{Name: g.name, Flows: s.Flows, Stations: s.Stations}
	if err := graph.workload(c.Seed).Validate(); err != nil {
		return nil, err
	}
	return graph.newRow(ctx, r, chain, c.Seed)
}

// report adds the graphs' figures, and what the stage costs. A stage may well drop packets, as an access list
// does, so the share that it drops is a row and no error.
func (s *Stage) report(out *bench.Result, list []stageGraph, rows []*row) {
	own := len(rows) - len(s.Variants)
	first, last := rows[0], rows[own-1]
	over := "over " + graphLabel(list[0].stages)
	note := fmt.Sprintf(", wall time, median of %d rounds' differences", len(last.rounds))
	cost := differences(last, first)
	out.Add(s.Name+".ns", "ns/packet", median(cost), over+note, bench.Lower)
	out.Add(s.Name+".ns_best", "ns/packet", bestNs(last)-bestNs(first), over+", difference of the best rounds", bench.Lower)
	if own == 3 {
		out.Add(s.Name+".own_ns", "ns/packet", median(differences(last, rows[1])), "without what the parser does for it"+note, bench.Lower)
		out.Add(s.Name+".parser_ns", "ns/packet", median(differences(rows[1], first)), "what the parser does for it"+note, bench.Lower)
	}
	n := last.measured()
	out.Add(s.Name+".dropped", "share", float64(n.dropped)/float64(n.packets), "of the packets, by all stages", bench.Neither)
	out.Add(s.Name+".copies", "share", float64(n.copied)/float64(n.packets), "for each packet, by all stages", bench.Neither)
	s.reportVariants(out, first, rows[own:], over+note)
	for _, u := range rows {
		u.report(out)
	}
}

// reportVariants adds what the stage costs with each of its variants, and what some
// cost over others.
func (s *Stage) reportVariants(out *bench.Result, without *row, variants []*row, source string) {
	costs := map[string]float64{}
	for _, u := range variants {
		costs[u.name] = median(differences(u, without))
		out.Add(s.Name+"."+u.name+".ns", "ns/packet", costs[u.name], source, bench.Lower)
	}
	for _, v := range s.Variants {
		if v.Over != "" {
			out.Add(s.Name+"."+v.Name+"_over_"+v.Over, "ratio", costs[v.Name]/costs[v.Over], "of two of the above", bench.Lower)
		}
	}
}

func bestNs(u *row) float64 { return slices.Min(each(u.rounds, sample.ns)) }

func graphLabel(names []string) string {
	if len(names) == 0 {
		return "a graph without stages"
	}
	return strings.Join(names, ", ")
}
