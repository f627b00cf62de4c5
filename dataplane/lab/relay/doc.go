// Package relay is a cable that delays and loses packets as configured, and knows
// exactly what it did: the truth for measurements of delay and loss.
//
//	port 0 ── receive, with the kernel's time ──> queue by due time ── send, with the time ──> port 1
//	port 0 <── send ── queue by due time <── receive ── port 1
//
// Packets are of classes, by destination port; of a packet in VXLAN the inner one counts. Each packet's delay and fate are
// drawn by themselves, from its number and a seed, so that packets next to each
// other have nothing in common. What is reported is not what was asked for but
// what was achieved: from the kernel's time of arrival to the reading of the clock
// before the packet is sent.
//
// A direction is one goroutine on its own thread. Its queue grows as it
// must: packets of delay times rate.
package relay
