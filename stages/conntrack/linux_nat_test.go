package conntrack

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// The judge's outside address is 10.1.0.200. It translates what natJudged does.
const natJudgeRules = `table ip n {
chain pre { type nat hook prerouting priority dstnat;
udp dport 9999 accept
ip daddr 10.1.0.200 tcp dport 443 dnat to 10.0.0.80:8443
ip daddr 10.1.0.200 udp dport 53 dnat to 10.0.0.80
}
chain post { type nat hook postrouting priority srcnat;
udp dport 9999 accept
oifname "p1" ip saddr 10.0.0.0/24 meta l4proto tcp snat to 10.1.0.200:20000-59999
oifname "p1" ip saddr 10.0.0.0/24 meta l4proto udp snat to 10.1.0.200:20000-59999
oifname "p1" ip saddr 10.0.0.0/24 snat to 10.1.0.200
oifname "p0" ip saddr 10.0.0.0/24 ct status dnat meta l4proto tcp snat to 10.1.0.200:20000-59999
oifname "p0" ip saddr 10.0.0.0/24 ct status dnat meta l4proto udp snat to 10.1.0.200:20000-59999
}
}
`

func natJudged() Config {
	c := guarded(Rule{Action: Permit, Dst: "10.1.0.200", Protocol: "tcp", DstPort: "443"}, Rule{Action: Permit, Dst: "10.1.0.200", Protocol: "udp", DstPort: "53"})
	c.SNAT = []SNAT{{Ports: []string{"p0"}, Src: "10.0.0.0/24", Addresses: []string{"10.1.0.200"}, PortRange: "20000-59999"}}
	c.DNAT = []DNAT{
		{Dst: "10.1.0.200", Protocol: "tcp", DstPort: "443", Backends: []Backend{{Address: "10.0.0.80", Port: 8443}}},
		{Dst: "10.1.0.200", Protocol: "udp", DstPort: "53", Backends: []Backend{{Address: "10.0.0.80"}}},
	}
	return c
}

// exchange sends a packet, and a mark after it, and returns what of the packet comes out at a side before the mark.
func (j *judge) exchange(t *testing.T, q *probe, to int) []byte {
	t.Helper()
	j.marks++
	mark := probe{port: q.port, src: judgeAddr(q.port), dst: judgeAddr(to), proto: 17, srcPort: 20000 + j.marks, dstPort: 9999, data: []byte("mark")}
	if to == q.port {
		mark.dst = netip.AddrFrom4([4]byte{10, byte(to), 0, 80})
	}
	for _, p := range []*probe{q, &mark} {
		frame := p.frame()
		copy(frame, j.macs[q.port])
		copy(frame[6:], j.hosts[q.port].MAC)
		check(t, j.sockets[q.port].Send(frame))
	}
	check(t, j.sockets[to].SetDeadline(time.Now().Add(time.Minute)))
	buf := make([]byte, 4096)
	var out []byte
	for {
		n, err := j.sockets[to].Receive(buf)
		check(t, err)
		if n < 42 || buf[12] != 8 || buf[13] != 0 {
			continue
		}
		if buf[23] == 17 && binary.BigEndian.Uint16(buf[36:]) == 9999 {
			if binary.BigEndian.Uint16(buf[34:]) == mark.srcPort {
				return out
			}
			continue
		}
		if binary.BigEndian.Uint16(buf[18:]) == uint16(q.id) && buf[22] != 64 { // forwarded: what we sent has 64
			out = append([]byte(nil), buf[:n]...)
		}
	}
}

// both are the judge and the stage, side by side.
type both struct {
	*judge
	rig *rig
	id  uint32
	// The outside ends that each of them gave, which differ.
	ends [2][]string
}

// send sends a packet to both, in which an end %OUT of an answer is what each of them gave. It compares how it leaves, and returns that of the stage.
func (j *both) send(t *testing.T, what string, to int, of func(out string) probe) {
	t.Helper()
	var texts [2]string
	for side := range 2 {
		out := ""
		if n := len(j.ends[side]); n != 0 {
			out = j.ends[side][n-1]
		}
		q := of(out)
		j.id++
		q.id = j.id & 0x7fff
		var frame []byte
		if side == 0 {
			frame = j.exchange(t, &q, to)
		} else {
			j.rig.now += 1e6
			frame, _ = j.rig.forward(q.port, q.frame())
		}
		texts[side] = "dropped"
		if frame != nil {
			texts[side] = packetText(t, frame)
			if out == "" {
				words := strings.Fields(texts[side])
				end := words[0]
				if words[3] == "icmp" {
					end += " id " + words[len(words)-1]
				}
				j.ends[side] = append(j.ends[side], end)
				out = end
			}
			host, rest, _ := strings.Cut(out, " id ")
			texts[side] = strings.ReplaceAll(texts[side], host, "OUT")
			if rest != "" && to == 1 { // inside both have the identifier that was sent
				texts[side] = strings.ReplaceAll(texts[side], "id "+rest, "ID")
			}
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("%s: Linux %q, the stage %q", what, texts[0], texts[1])
	}
	if texts[0] == "dropped" {
		t.Errorf("%s: Linux drops it, which compares nothing", what)
	}
}

func (j *both) begin() { j.ends = [2][]string{} }

// TestLinuxTranslates: what Linux's source and destination translation make of conversations and of errors about them is what the stage makes of
// them, but for the numbers of outside ports.
func TestLinuxTranslates(t *testing.T) {
	j := &both{judge: newJudgeWith(t, natJudgeRules), rig: newRig(t, natJudged())}
	r := rand.New(rand.NewPCG(19, 6))
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	for n := range rounds {
		in := fmt.Sprintf("10.0.0.77:%d", 2000+n)
		server := fmt.Sprintf("10.1.0.77:%d", 1+r.IntN(1000))
		seq := r.Uint32()
		j.begin()
		j.send(t, "SYN", 1, func(string) probe { return tcpProbe(0, in, server, flagSYN, seq, 0, 0) })
		j.send(t, "SYN-ACK", 0, func(out string) probe { return tcpProbe(1, server, out, flagSYN|flagACK, 7, seq+1, 0) })
		j.send(t, "data", 1, func(string) probe { return tcpProbe(0, in, server, flagACK|flagPSH, seq+1, 8, 1+r.IntN(1000)) })
		j.send(t, "error about data", 0, func(out string) probe {
			return errorProbe(1, "10.1.0.99", tcpProbe(0, out, server, flagACK, seq+1, 8, 100))
		})
		j.send(t, "error about an answer", 1, func(string) probe {
			return errorProbe(0, "10.0.0.77", tcpProbe(1, server, in, flagACK, 8, seq+1, 100))
		})

		j.begin()
		j.send(t, "UDP", 1, func(string) probe { return udpProbe(0, in, server) })
		j.send(t, "answer of UDP", 0, func(out string) probe { return udpProbe(1, server, out) })
		j.send(t, "error about UDP", 0, func(out string) probe { return errorProbe(1, "10.1.0.99", udpProbe(0, out, server)) })

		j.begin()
		j.send(t, "ping", 1, func(string) probe { return echoProbe(0, "10.0.0.77", "10.1.0.77", false, uint16(n)) })
		j.send(t, "its answer", 0, func(out string) probe {
			addr, id, _ := strings.Cut(out, " id ")
			var number uint16
			_, err := fmt.Sscan(id, &number)
			check(t, err)
			return echoProbe(1, "10.1.0.77", addr, true, number)
		})

		client := fmt.Sprintf("10.1.0.77:%d", 1024+n)
		for _, service := range []struct {
			to, backend string
			proto       uint8
		}{{"10.1.0.200:443", "10.0.0.80:8443", 6}, {"10.1.0.200:53", "10.0.0.80:53", 17}} {
			pick := func(tcp, udp probe) probe {
				if service.proto == 6 {
					return tcp
				}
				return udp
			}
			j.begin()
			j.send(t, "to a backend", 0, func(string) probe {
				return pick(tcpProbe(1, client, service.to, flagSYN, seq, 0, 0), udpProbe(1, client, service.to))
			})
			j.send(t, "the backend's answer", 1, func(string) probe {
				return pick(tcpProbe(0, service.backend, client, flagSYN|flagACK, 1, seq+1, 0), udpProbe(0, service.backend, client))
			})
			j.send(t, "a backend's error", 1, func(string) probe {
				return errorProbe(0, "10.0.0.80", pick(tcpProbe(1, client, service.backend, flagSYN, seq, 0, 0), udpProbe(1, client, service.backend)))
			})
			j.begin()
			j.send(t, "hairpin", 0, func(string) probe {
				return pick(tcpProbe(0, in, service.to, flagSYN, seq, 0, 0), udpProbe(0, in, service.to))
			})
			j.send(t, "hairpin, back", 0, func(out string) probe {
				return pick(tcpProbe(0, service.backend, out, flagSYN|flagACK, 1, seq+1, 0), udpProbe(0, service.backend, out))
			})
		}
	}
	checkNAT(t, j.rig)
}
