package conntrack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	os.Exit(m.Run())
}

// judge is Linux's own connection tracking: a namespace that forwards between two hosts, behind rules that say what guarded() says.
type judge struct {
	hosts   [2]*netnstest.Host
	sockets [2]*netns.PacketSocket
	macs    [2][]byte // the router's
	marks   uint16
}

const judgeRules = `table ip t { chain c { type filter hook forward priority 0; policy drop;
udp dport 9999 accept
ct state invalid drop
iifname "p0" accept
ct state established,related accept
}
}
`

func newJudge(t *testing.T) *judge { return newJudgeWith(t, judgeRules) }

func newJudgeWith(t *testing.T, rules string) *judge {
	t.Helper()
	netnstest.Require(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft (package nftables)")
	}
	j := &judge{}
	router := netnstest.New(t, "wct")
	for i := range j.hosts {
		name := fmt.Sprintf("p%d", i)
		j.hosts[i] = netnstest.NewHost(t, "wct", netnstest.Port{Namespace: router, Name: name})
		check(t, router.AddAddress(name, netip.MustParsePrefix(fmt.Sprintf("10.%d.0.254/24", i))))
		check(t, router.AddNeighbour(name, judgeAddr(i), j.hosts[i].MAC))
		check(t, router.AddNeighbour(name, netip.AddrFrom4([4]byte{10, byte(i), 0, 80}), j.hosts[i].MAC))
		mac, err := router.MAC(name)
		check(t, err)
		j.macs[i], j.sockets[i] = mac, j.hosts[i].Packet(t)
	}
	check(t, router.AddAddress("p1", netip.MustParsePrefix("10.1.0.200/32")))
	check(t, router.Do(func() error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600); err != nil {
			return err
		}
		for _, of := range []string{"all", "p0", "p1"} { // what is for a neighbour of its sender goes on without a word
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+of+"/send_redirects", []byte("0"), 0o600); err != nil {
				return err
			}
		}
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = bytes.NewReader([]byte(rules))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	}))
	return j
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// judgeAddr is an address of no host, so no stack answers.
func judgeAddr(side int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(side), 0, 77}) }

// permits sends a packet, and one after it that passes anyway: when that is there, the first one is or was dropped.
func (j *judge) permits(t *testing.T, q *probe) bool {
	t.Helper()
	from, to := q.port, 1-q.port
	j.marks++
	mark := probe{port: from, src: judgeAddr(from), dst: judgeAddr(to), proto: 17, srcPort: 20000 + j.marks, dstPort: 9999, data: []byte("mark")}
	for _, p := range []*probe{q, &mark} {
		frame := p.frame()
		copy(frame, j.macs[from])
		copy(frame[6:], j.hosts[from].MAC)
		check(t, j.sockets[from].Send(frame))
	}
	check(t, j.sockets[to].SetDeadline(time.Now().Add(time.Minute)))
	buf := make([]byte, 4096)
	want, passed := q.frame()[26:], false
	for {
		n, err := j.sockets[to].Receive(buf)
		check(t, err)
		if n < 42 || buf[12] != 8 || buf[13] != 0 {
			continue
		}
		if bytes.Equal(buf[26:n], want[:min(n-26, len(want))]) {
			passed = true
		}
		if buf[23] == 17 && bytes.Equal(buf[26:38], mark.frame()[26:38]) {
			return passed
		}
	}
}

// TestLinuxAgrees sends conversations of TCP, sensible and not, through Linux's connection tracking and through the stage, and
// compares the fate of each segment. They are not the same to the last one: nearly all that differ are resets, and segments
// out of window, of conversations that make no sense by then, which Linux lets through and the stage does not.
func TestLinuxAgrees(t *testing.T) {
	j := newJudge(t)
	conversations := 1500
	if testing.Short() {
		conversations = 100
	}
	r := rand.New(rand.NewPCG(19, 5))
	c := guarded()
	c.Connections = 3 * conversations
	g := newRig(t, c)
	segments, dropped, differ, wider := 0, 0, 0, 0
	for n := range conversations {
		syn := tcpProbe(0, fmt.Sprintf("10.0.0.77:%d", 2000+n), "10.1.0.77:80", flagSYN, 1000, 0, 0)
		syn.options = pick(r, nil, []byte{3, 3, 7, 4, 2, 1, 1, 1})
		last := syn
		var said []string
		for range 14 {
			q := last
			switch r.IntN(6) {
			case 0: // again
			case 1, 2, 3:
				q = judgeAnswer(r, last)
			default:
				if r.IntN(2) == 0 {
					q = q.back(1 - q.port)
				}
				q.flags = pick[uint8](r, flagSYN, flagSYN|flagACK, flagACK, flagACK, flagFIN|flagACK, flagRST, flagRST|flagACK, 0, flagSYN|flagRST)
				near := func() uint32 {
					return pick(r, 0, 1000, 1001, 1002, 1100, 5000, 5001, 5002, 5100, 1000+60000, 1000+200000, 0xffff0000, r.Uint32())
				}
				q.seq, q.ack, q.win = near(), near(), pick[uint16](r, 0, 1, 1000, 60000)
				if q.flags&flagSYN == 0 {
					q.data = make([]byte, pick(r, 0, 1, 100))
				}
			}
			g.now += 1e6
			ours := g.send(q.port, q.frame())
			linux := j.permits(t, &q)
			said = append(said, fmt.Sprintf("p%d flags %02x seq %d ack %d win %d data %d: %q, Linux %v", q.port, q.flags, q.seq, q.ack, q.win, len(q.data), ours, linux))
			segments++
			if ours != 0 {
				dropped++
			}
			if (ours == 0) != linux {
				if differ++; ours == 0 {
					wider++
				}
				if differ <= 5 {
					t.Logf("conversation %d: %s", n, said)
				}
				break // the states have parted
			}
			last = q
		}
	}
	t.Logf("%d segments of %d conversations, %d dropped by the stage; Linux decides otherwise about %d, of which it drops %d", segments, conversations, dropped, differ, wider)
	if differ > segments/100 || wider > segments/1000 {
		t.Errorf("Linux decides otherwise about %d of %d segments, and drops %d of them: want 1 in 100 and 1 in 1000 at most", differ, segments, wider)
	}
	if dropped < segments/20 || dropped > segments*19/20 {
		t.Errorf("%d of %d dropped: that tests little", dropped, segments)
	}
}

// judgeAnswer is what the receiver of a segment sends next in a sensible conversation.
func judgeAnswer(r *rand.Rand, q probe) probe {
	sent := q.segment()
	a := q.back(1 - q.port)
	a.options, a.data = nil, nil
	a.flags, a.seq, a.ack, a.win = flagACK, q.ack, sent.end, 60000
	switch {
	case sent.kind == segmentSyn:
		a.flags, a.seq = flagSYN|flagACK, 5000
		a.options = q.options
	case r.IntN(4) == 0:
		a.flags |= flagFIN
	case r.IntN(2) == 0:
		a.data = make([]byte, 100)
	}
	return a
}
