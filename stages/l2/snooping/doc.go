// Package snooping knows which ports of a bridge listen to which IP multicast groups, from what hosts and routers say by IGMP and MLD (RFC 4541).
//
//	worker:  Read ──> Event ──[ring]──> Take: the one writer
//	                                     │  memberships by port (RFC 3376, 6.4), queriers, routers
//	worker:  Look <── immutable lists ───┘
//
// A VLAN is snooped in a family (IPv4, IPv6) while a querier is heard there, because hosts renew their reports for it alone. Memberships are
// those of a router in RFC 3376 and RFC 3810, section 6 or 7, for each port: filter mode, sources, and their timers. The switch
// sends no queries: a leave takes effect when the querier's specific query for it went unanswered, or at once on ports of one host each (fast leave).
//
// Hostile hosts: the table is bounded, and a new membership in a full table displaces one of the port that has most. A port that
// lost some, to that or to a full ring, gets the packets of all groups until hosts there have reported anew, so nothing is missed.
// Queries count only if hosts would answer them: what lowers a timer has reached those whose answer raises it.
//
// References: RFC 1112, 2236, 3376 (IGMPv1 to 3), 2710, 3810 (MLDv1, 2), 4286 (multicast router discovery), 4541 (snooping), 7761 (PIM).
package snooping
