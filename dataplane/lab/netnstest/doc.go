// Package netnstest gives tests network namespaces, hosts and veth pairs that
// clean up after themselves.
//
// A test begins with [Require]. Its namespaces are called
// PREFIX-PID.START-N-LABEL, where PID and START (the process's start time) name
// the process that made them, so what a crashed test left behind is told from
// what a running one uses, and is removed by the next test of the same prefix.
//
//	netnstest.Require(t)
//	middle := netnstest.New(t, "wx")
//	h1 := netnstest.NewHost(t, "wx", netnstest.Port{Namespace: middle, Name: "p0"}, "10.0.0.1/24")
//	h2 := netnstest.NewHost(t, "wx", netnstest.Port{Namespace: middle, Name: "p1"}, "10.0.0.2/24")
//	netnstest.Introduce(t, h1, h2)
package netnstest
