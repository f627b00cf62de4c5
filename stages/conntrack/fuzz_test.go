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

// FuzzTranslate sends two packets of any bytes, by both sides of a translation: mappings, blocks and aliases stay those of connections.
func FuzzTranslate(f *testing.F) {
	q := udpProbe(0, "10.0.0.1:1", "198.51.100.7:53")
	s := tcpProbe(0, "10.0.0.1:2", outsideAddr+":443", flagSYN, 1, 0, 0)
	part := q
	part.more, part.id = true, 7
	for _, p := range []probe{q, s, part, errorProbe(1, "192.0.2.9", q), echoProbe(0, "10.0.0.1", "198.51.100.7", false, 1)} {
		back := p.back(1)
		f.Add(p.frame(), back.frame())
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		if len(one) > 1500 || len(two) > 1500 {
			return
		}
		c := natConfig()
		c.Connections, c.Groups = 64, nil
		c.SNAT[0].BlockSize, c.SNAT[0].PortRange = 64, "1024-1200"
		c.DNAT = []DNAT{{Dst: outsideAddr, Protocol: "tcp", DstPort: "443", Backends: []Backend{{Address: "10.0.0.80"}}}}
		r := newRig(t, c)
		for port, frame := range [][]byte{one, two, one, two} {
			r.send(port&1, frame)
		}
		checkNAT(t, r)
		r.now += 1 << 50
		r.stage.Tick(r.now)
		if used := r.stage.nat.outside[0].used; r.stage.table.used != 0 || used != 0 {
			t.Fatalf("%d connections and %d mappings are left", r.stage.table.used, used)
		}
		checkNAT(t, r)
	})
}
