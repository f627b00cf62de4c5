// Package sflow is the stage that samples packets and counts interfaces for tools that read sFlow version 5.
//
//	           ┌────────── worker ───────────┐
//	batch ───> │ one in N of a port's packets│──> go on as they are
//	           └─────────────│───────────────┘
//	            [ring per worker] ──> Run ──> datagrams ──> what sends them (SetOutput): UDP of the host
//	            counters of ports, each interval ──^
//
// Effect on packets: none. Sampled is what arrived at the ports, dropped packets too, each packet with the probability 1/N whatever came
// before: between two samples a worker skips a number of packets that is drawn from the geometric distribution, by the switch's seed. A large packet
// counts as its segments. Headers are as packets leave the stage in front, so write it directly behind the forwarding stage.
//
// Interfaces are numbered as ports are, from 1; each counter sample has the port's name. A packet to a group has the output "several".
//
// Config keys: collectors, agent, header_bytes, counter_interval, port. Cost: a decrement per packet of sampled ports; a copy of the header per sample.
package sflow
