// Package patch is the cross-connect stage: what arrives on one port of a pair
// leaves on the other, unread and unchanged.
//
//	p0 <────> p1        pairs = [["p0", "p1"], ["p2", "p3"]]
//	p2 <────> p3
//	p4  (in no pair: its packets are dropped as "unpatched")
//
// Config keys: pairs. Drop reasons: unpatched. Cost: one table read a packet.
package patch
