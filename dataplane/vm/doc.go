// Package vm runs Weir on the drivers of real NICs, which QEMU emulates: a virtual machine boots Debian's Linux with
// an initial RAM filesystem that holds weir and a guest program, which runs the acceptance tests and reports them.
//
//	+- QEMU ---------------------------------------------------------------+
//	|  +- Linux --------------------------------------------------------+  |
//	|  |  namespace h1         weir switch, s1   s2         namespace h2 |  |
//	|  |     eth0                a   b           c   d         eth0      |  |
//	|  +------|------------------|---|-----------|---|-----------|-------+  |
//	|         +------ cable -----+   +---------- | - | -- cable -+          |
//	|                                            +---+ cable               |
//	+----------------------------------------------------------------------+
//
// All six NICs have the same driver. One switch has the ports a and b; with two switches, s1 has a and c, and s2 has d and
// b. In place of a switch, a Linux bridge of a and b shows that the rig itself carries packets. The driver veth has no NIC:
// the guest makes pairs.
//
// Two machines may also be guests of one switch on this machine, by vhost-user ([End]).
//
// A [Plan] is what a guest does: rows of a mode (zero-copy, copy, ...) times tests. It sends each [Result] as a line
// of JSON over the second serial port; the first one is the console. install.sh gets QEMU and the kernel.
package vm
