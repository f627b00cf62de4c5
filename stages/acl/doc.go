// Package acl is the access control stage: ordered rules, of which the first
// that matches a packet permits or drops it.
//
//	         ┌──────────────────────────────────────────────┐
//	batch ──>│ a class per field ──> first rule of all classes │──> permitted
//	         └──────────────────────────────────────────────┘──> dropped: acl_denied, acl_unparsed, tiny_fragment
//
// A rule matches on the input port, MAC addresses under a mask, VLAN,
// EtherType, IP prefixes, protocol, ports and TCP flags; what it leaves out
// matches everything. Action "count" counts and goes on to the rules behind it.
// A packet that no rule permits or denies has the default's fate. Where a rule has ports or
// flags, fragments that would hide them are dropped (RFC 1858).
//
// A field that the parser could not reach may be anything to the packet's receiver. A rule that denies
// matches there (reason acl_unparsed), one that permits or counts does not: a packet passes
// only if the rules permit all that it can be. Each field has a class for this, so it costs no more.
//
// Rules are not tried one by one. Every field's values fall into classes:
// values that the same rules match. A class has a bit per rule, and a second, short row
// with a bit per 64 of these, so the rules that match a packet are the AND of
// one row per field, of which nearly all words are skipped (Baboescu and Varghese,
// "Scalable Packet Classification", SIGCOMM 2001).
//
// Most sets of rules need no rows, as a port, a prefix or a protocol leaves a handful of rules: they have
// shortlists (see shortlist), from which the first rule that matches is taken by comparing. The rows have what is
// left: sets of rules of which no field tells much, and packets that could not be parsed.
//
// Where finding a rule costs much, a per-worker cache has the rules of flows, or those of combinations of classes where there are no
// shortlists. Both are exact. A cache that knows few packets is asked only now and then.
//
// Control replaces all rules at once (Module.SetConfig): workers see the old ones
// or the new ones, never a mixture.
package acl
