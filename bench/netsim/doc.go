// Package netsim runs networks of switches in one process, without sockets.
//
// A Graph says which Nodes there are and which Links join them: read from a
// GML file of the Topology Zoo, or built as a fat tree or a spine and leaf
// network. Routes are the shortest paths of a graph, with all equal-cost next
// hops; a flow's hash picks one of them at each node, so a flow keeps its
// path. A Path is what a packet of the flow passes.
//
//	GML, FatTree, SpineLeaf --> Graph --> Routes --> Path of a flow hash
//
// Nothing here knows packets or stages. What carries packets along a Path, and
// what a node does to them, is built on these types and leaves them as they are.
//
// A Graph is immutable once built, and then safe for concurrent use; Routes
// are too.
package netsim
