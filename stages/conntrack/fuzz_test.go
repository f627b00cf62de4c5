package conntrack

import (
	"testing"
)

// FuzzProcess sends two packets of any bytes, by two ports: the stage neither panics nor allows the second one to change what
// the table counts in a wrong way.
func FuzzProcess(f *testing.F) {
	q := udpProbe(0, client, server)
	s := tcpProbe(0, client6, server6, flagSYN, 1, 0, 0)
	s.options = []byte{3, 3, 7, 4, 2, 0, 0, 0}
	part := udpProbe(0, client6, server6)
	part.more, part.id = true, 7
	for _, p := range []probe{q, s, part, errorProbe(1, "10.9.9.9", q), errorProbe(1, "2001:db8::9", s), echoProbe(0, "10.0.0.1", "10.0.0.2", false, 1)} {
		back := p.back(1)
		f.Add(p.frame(), back.frame())
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		if len(one) > 1500 || len(two) > 1500 {
			return
		}
		c := guarded(Rule{Action: Permit, Dst: "10.0.0.0/8"})
		c.Connections = 64
		r := newRig(t, c)
		for port, frame := range [][]byte{one, two, one} {
			before := r.stage.table.used
			reason := r.send(port, frame)
			if used := r.stage.table.used; reason != 0 && used > before {
				t.Fatalf("port %d: dropped as %v, and there is a connection more", port, reason)
			}
		}
		t1 := r.stage.table
		slots, sum := 0, uint32(0)
		for _, slot := range t1.slots {
			if slot != 0 {
				slots++
			}
		}
		for i := range t1.shares {
			sum += t1.shares[i].used
		}
		if slots != int(t1.used) || sum != t1.used || t1.used > 3 {
			t.Fatalf("%d slots, %d in shares, %d connections", slots, sum, t1.used)
		}
	})
}
