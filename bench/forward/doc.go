// Package forward measures how fast packets are forwarded between two cables, by Weir and by what
// a user would pick instead, in the manner of RFC 2544 on network namespaces:
//
//	source eth0 ---- p0 device p1 ---- eth0 sink
//
// MRR is the rate at which packets arrive when the source sends as fast as it can. NDR and PDR are the
// highest rates with no loss and with at most 0.5 %, found by a search with repeated trials.
// Latency is taken at 10, 50 and 90 % of the device's own NDR. Loss is the share of the packets
// handed to the first cable that the sink did not see, so what a full ring before the device refuses is
// lost too. Devices take turns in rounds, each in fresh namespaces; a figure is the median of the
// rounds, a ratio the median of the ratios within each round.
//
// # Devices
//
// redirect is an XDP program of four instructions and the ceiling of what a veth carries. bridge
// is the Linux bridge. asavie, patch and l2 are "weir switch" with its own defaults. ovs is a
// private Open vSwitch with two afxdp ports, one PMD thread and one flow in each direction. testpmd forwards in
// mode io, with the NAPI deferral that its guide recommends. All processes run on the device's core.
//
// # Ports in shared memory
//
// With PortsVhost and PortsMemif two guests of our own are source and sink (guest.go): each sends to the other one, at a rate or as fast as
// it can. What a ring has no room for is lost. A run is valid only if what the guests sent is what the device
// received, and what the device sent is what they received (Open vSwitch does not tell the latter). Devices listen and guests connect, but
// where the device's offloads need the opposite.
//
// # Cores
//
// There are two, so it matters where the kernel's own work runs. A veth has its receive work (NAPI: the XDP
// program, the copy into the UMEM) on the core that sends, unless it is moved to a thread. The sink's
// receive work hence always runs where the device transmits, and is in each device's figures: an XDP
// program that counts, and for what came out of an AF_XDP socket, the copy into a page fit for XDP. A
// profile of Weir's patch shows 47 % of the device's core in it. For the receive work of p0, Placement
// gives the choice, the same for all devices of a run:
//
//	source  softirqs on the source's core, as a veth has it. The source cannot overrun the ring: it slows
//	        down with the device. A device in user space has its core for itself; one in the
//	        kernel (bridge, redirect) does all its work on the source's core, and the result says
//	        source-limited.
//	device  a kernel thread on the device's core, which then does everything, and the source nothing
//	        but send. Thread and switch take turns there by the scheduler's slices of some ms, in which
//	        a ring of 256 packets overruns at any rate worth naming. NDRs say more about
//	        that than about the device; compare MRRs.
//
// The default is source, where every device is about as fast as it can be. Medians of 5 rounds of
// 0.5 s, 64 B, Mpps, on two cores of an AMD EPYC, Linux 6.18 (bench/results holds the raw figures):
//
//	          redirect bridge asavie ovs  testpmd patch l2
//	source    2.88     0.66   0.70   0.89 0.91    0.91  0.90
//	device    3.91     0.69   0.37   0.35 0.32    0.45  0.45
//
// The bridge is as fast in both; what it gains by its own core it loses because packets
// change cores.
//
// # Noise
//
// All that takes part runs at nice -20, sessions included (autogroups, see sched(7)), and this process
// keeps to the source's core. Without it the figures of a machine that also compiles
// something spread by 30 to 100 %; with it, by 2 to 10 %. What a hypervisor takes is shown as "stolen".
//
// Namespaces are named after the process; a run removes what a crashed one has left. Processes of
// devices die with this one, however it ends.
package forward
