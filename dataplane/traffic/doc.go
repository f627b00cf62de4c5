// Package traffic generates load and receives it: sources that send a workload at a steady
// rate, and sinks that know of each packet whether it was lost, duplicated,
// reordered or late.
//
//	Workload --> Source --> interface ... network under test ... interface --> Sink --> Report
//	             | LiveSource    XDP program in the kernel's live-frame mode | XDPSink
//	             | XSKSource     AF_XDP socket                               | PacketSink
//	             | PacketSource  AF_PACKET, sendmmsg                         |
//
// A [Workload] fixes each byte of each packet but the send time. Sequence number n has the flow
// that a hash of the seed and n draws, so nothing depends on the source used; tests
// hold the C and the Go writer together. Sizes are those on the wire and include the
// frame check sequence of 4 bytes: 64 B means that 60 bytes are handed to the device. A
// [Mark] of 18 bytes behind the UDP header carries run, sequence number and send time, and
// just fits a packet of 64 B over IPv4; IPv6 needs 84 B. Send times are of CLOCK_MONOTONIC, or
// of CLOCK_TAI when the ends are two machines.
//
// # Pacing
//
// Each source sends packet n when its time has come and never before, so in any stretch
// of time there are at most rate times length plus Load.CatchUp (32) packets. What a source
// misses beyond that, because something held it up, it gives up rather than send in a lump,
// and the run says SourceLimited when that came to more than 0.5 %.
//
// The live-frame program is called in a loop that user space cannot pace. It keeps the time itself
// and returns the page unsent (XDP_DROP, about 30 ns) until the next packet is due; a
// signal to the sending thread ends the loop. A call costs about 25 ms to set up and lasts for
// 2^32 program calls, which are two minutes at least, so Sent.Restarts is normally 0. Packets go to
// the device at the end of a batch of program calls, which the sink sees as latency: over a bare veth at
// 300 kpps the median was 0.6 µs with batches of 8, and 3.4 µs with the kernel's 64.
// A paced source hence uses 8, one that floods 64. Its core is busy at any rate;
// PacketSource and XSKSource sleep through waits above 0.2 ms.
//
// # Cores
//
// On a veth the peer's receive work runs where the sender is: when the program's batch ends, the
// softirq runs on the same core before the next batch begins. So the source cannot
// overrun the veth's ring of 256 packets; it slows down instead. Measured on two
// shared cores of an AMD EPYC (family 26), Linux 6.18, 64 B, with a source pinned to core 0:
//
//	flood, XDP sink, receiving in softirq on core 0    4.2 Mpps        no loss
//	flood, XDP sink, receive thread on core 1          2.8 to 4.7 Mpps 44 to 53 % refused by the ring
//	100 kpps, AF_PACKET sink on core 0                 no loss         p99 latency 3.7 ms
//	100 kpps, AF_PACKET sink on core 1                 no loss         p99 latency 0.05 to 0.2 ms
//	  the same, receive thread on core 1               no loss         p99 latency 0.1 ms
//	  the same, receive thread on core 0               5 % refused     p99 latency 3.8 ms
//	300 kpps, AF_PACKET sink on core 1                 no loss
//	  the same, receive thread on core 1               0.2 to 0.7 % refused
//
// (Two runs of two seconds each, with other work on the machine.) The refusals with the receive
// thread on core 0 show the starvation: a task that shares the source's core, be it
// a receive thread or the switch under test, waits for whole time slices of about 4 ms,
// in which a paced source overruns the ring. Hence:
//
//   - Pin the source ([Port].Core) and keep the switch, the sink's thread and receive threads off
//     that core.
//   - Leave receiving in softirqs. [SetThreaded] moves it to threads, which pays only when a core is
//     free for them: a thread that is not running for 1 ms at 300 kpps has lost packets.
//   - Packet steering (RPS) does not help: XDP runs before it.
//   - A veth chooses the receive queue by the sender's core number, so one source feeds one queue.
//
// Rates of the sources over a veth into an XDP sink, whose work is included (go test -bench
// Source -benchtime 2000000x): live frames 3.8 to 4.0 Mpps, AF_XDP in copy mode 0.9,
// AF_PACKET 0.6; 10 million flows, Zipf's law and IMIX change little.
//
// # Honesty
//
// Sent.Packets counts what was handed to the device. A veth that has no room drops silently;
// Sent.Refused counts them by the device's counters, and they are lost as far as the sink
// is concerned. With nothing else between source and sink, sent = unique + refused +
// overflow holds to the packet, and the tests insist on it.
//
// # Processor time
//
// [ReadCPU] reads user, system and softirq time of the machine, its cores and chosen tasks. A kernel
// without CONFIG_VIRT_CPU_ACCOUNTING_GEN or CONFIG_IRQ_TIME_ACCOUNTING samples them at
// timer ticks, and softirqs that run at the end of a source's batch count as the source's.
package traffic
