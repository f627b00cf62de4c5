package netsim

import (
	"fmt"
	"slices"
)

// Node is a switch of a graph. Nodes are numbered from 0 in the order in which
// they were added.
type Node struct {
	// ID is the switch id, unique in the graph: the id of a GML node, or the
	// number of a generated one.
	ID int
	// Label is for readers and may repeat.
	Label string
	// Edge marks a switch to which hosts connect. In graphs from files, where
	// nothing is known of hosts, all are.
	Edge bool
}

// Link joins two nodes, by number, and carries packets in both directions.
type Link struct{ A, B int }

// Graph is a network of switches: simple and undirected.
type Graph struct {
	Name  string
	Nodes []Node
	Links []Link // sorted, A < B
	// near[n] lists the neighbours of node n in increasing order.
	near   [][]int
	number map[int]int
}

// Path is a walk through a graph, by node number, first switch first.
type Path []int

// NewGraph checks and indexes a graph. Parallel links are merged and links
// from a node to itself are dropped, as a path gains nothing from them.
func NewGraph(name string, nodes []Node, links []Link) (*Graph, error) {
	g := &Graph{Name: name, Nodes: nodes, near: make([][]int, len(nodes)), number: make(map[int]int, len(nodes))}
	for i, n := range nodes {
		if _, twice := g.number[n.ID]; twice {
			return nil, fmt.Errorf("graph %s: node id %d occurs twice", name, n.ID)
		}
		g.number[n.ID] = i
	}
	for _, l := range links {
		if min(l.A, l.B) < 0 || max(l.A, l.B) >= len(nodes) {
			return nil, fmt.Errorf("graph %s: link %d-%d leads to no node", name, l.A, l.B)
		}
		if l.A != l.B {
			g.Links = append(g.Links, Link{min(l.A, l.B), max(l.A, l.B)})
		}
	}
	slices.SortFunc(g.Links, func(x, y Link) int {
		if x.A != y.A {
			return x.A - y.A
		}
		return x.B - y.B
	})
	g.Links = slices.Compact(g.Links)
	for _, l := range g.Links {
		g.near[l.A] = append(g.near[l.A], l.B)
		g.near[l.B] = append(g.near[l.B], l.A)
	}
	for _, n := range g.near {
		slices.Sort(n)
	}
	return g, nil
}

// Neighbours of a node, in increasing order; the caller must not change them.
func (g *Graph) Neighbours(node int) []int { return g.near[node] }

// EdgeNodes lists the nodes to which hosts connect.
func (g *Graph) EdgeNodes() []int {
	var edge []int
	for i, n := range g.Nodes {
		if n.Edge {
			edge = append(edge, i)
		}
	}
	return edge
}

// IDs are the switch ids of all nodes, as values of a path query.
func (g *Graph) IDs() []uint64 {
	ids := make([]uint64, len(g.Nodes))
	for i, n := range g.Nodes {
		ids[i] = uint64(n.ID)
	}
	return ids
}

// IDLinks are the links as pairs of switch ids.
func (g *Graph) IDLinks() [][2]uint64 {
	links := make([][2]uint64, len(g.Links))
	for i, l := range g.Links {
		links[i] = [2]uint64{uint64(g.Nodes[l.A].ID), uint64(g.Nodes[l.B].ID)}
	}
	return links
}

// PathIDs are the switch ids along a path.
func (g *Graph) PathIDs(p Path) []uint64 {
	ids := make([]uint64, len(p))
	for i, n := range p {
		ids[i] = uint64(g.Nodes[n].ID)
	}
	return ids
}
