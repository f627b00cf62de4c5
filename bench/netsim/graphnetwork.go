package netsim

import "fmt"

// Switches turns a graph into the switches and cables of a Network: each node is
// a switch with the node's id, a port "to<id>" for each neighbour, in their order, and a port
// "host" behind them. configure completes each switch: its graph and stages.
func (g *Graph) Switches(configure func(node int, s *Switch)) ([]Switch, []Cable) {
	switches := make([]Switch, len(g.Nodes))
	var cables []Cable
	for i := range g.Nodes {
		s := &switches[i]
		s.ID = uint32(g.Nodes[i].ID)
		for _, k := range g.Neighbours(i) {
			s.Ports = append(s.Ports, fmt.Sprintf("to%d", g.Nodes[k].ID))
		}
		s.Ports = append(s.Ports, "host")
		configure(i, s)
	}
	for _, l := range g.Links {
		cables = append(cables, Cable{{l.A, g.PortTo(l.A, l.B)}, {l.B, g.PortTo(l.B, l.A)}})
	}
	return switches, cables
}

// PortTo is the number of a node's port to its neighbour.
func (g *Graph) PortTo(node, neighbour int) int {
	for i, k := range g.Neighbours(node) {
		if k == neighbour {
			return i
		}
	}
	return -1
}

// HostPort is the number of a node's port to its hosts.
func (g *Graph) HostPort(node int) int { return len(g.Neighbours(node)) }

// NewLine returns the graph of n switches in a row, with ids from 1.
func NewLine(n int) (*Graph, error) {
	nodes := make([]Node, n)
	var links []Link
	for i := range nodes {
		nodes[i] = Node{ID: i + 1, Label: fmt.Sprintf("s%d", i+1), Edge: i == 0 || i == n-1}
		if i > 0 {
			links = append(links, Link{i - 1, i})
		}
	}
	return NewGraph(fmt.Sprintf("line %d", n), nodes, links)
}
