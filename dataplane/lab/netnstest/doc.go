// Package netnstest gives tests network namespaces, hosts and veth pairs that
// clean up after themselves.
//
// TestMain begins with [Isolate], and each test that needs namespaces with [Require].
//
//	func TestMain(m *testing.M) {
//		netnstest.Isolate()
//		m.Run()
//	}
//
//	netnstest.Require(t)
//	middle := netnstest.New(t, "wx")
//	h1 := netnstest.NewHost(t, "wx", netnstest.Port{Namespace: middle, Name: "p0"}, "10.0.0.1/24")
//	h2 := netnstest.NewHost(t, "wx", netnstest.Port{Namespace: middle, Name: "p1"}, "10.0.0.2/24")
//	netnstest.Introduce(t, h1, h2)
package netnstest
