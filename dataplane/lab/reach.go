package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/pipeline/header"
)

// Reach is who reaches whom, by echo requests from each host to each other one: within a tenant all reach each other, and hosts outside; no others do.
type Reach struct {
	Hosts []string `json:"hosts"` // tenant by tenant, then those outside
	// Pairs are all, in both directions, for each IP version that both hosts have.
	Pairs []ReachPair `json:"pairs"`

	tenant []int // by host; outside: -1
}

// ReachPair is whether requests from one host to another one were answered, and whether they shall be.
type ReachPair struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Family int    `json:"family"`
	Wanted bool   `json:"wanted"`
	Got    bool   `json:"got"`

	from, to  int // hosts
	address   netip.Addr
	requested int
}

// wrong are the pairs that reach each other and shall not, or the other way round.
func (r *Reach) wrong() (leaked, unreached []string) {
	for i := range r.Pairs {
		p := &r.Pairs[i]
		what := fmt.Sprintf("%s -> %s (IPv%d)", p.From, p.To, p.Family)
		switch {
		case p.Got && !p.Wanted:
			leaked = append(leaked, what)
		case p.Wanted && !p.Got:
			unreached = append(unreached, what)
		}
	}
	return leaked, unreached
}

// newReach lists the pairs of a load.
func (c *Config) newReach(t *Traffic) *Reach {
	r := &Reach{}
	for i, tenant := range append(slices.Clone(t.Tenants), t.Outside) {
		if i == len(t.Tenants) {
			i = -1
		}
		for _, name := range tenant {
			r.Hosts, r.tenant = append(r.Hosts, name), append(r.tenant, i)
		}
	}
	for from := range r.Hosts {
		for to := range r.Hosts {
			if from == to || r.tenant[from] < 0 && r.tenant[to] < 0 {
				continue
			}
			for _, family := range []int{4, 6} {
				_, speaks := c.host(r.Hosts[from]).address(family)
				address, has := c.host(r.Hosts[to]).address(family)
				if !speaks || !has {
					continue
				}
				wanted := r.tenant[from] >= 0 && (r.tenant[to] == r.tenant[from] || r.tenant[to] < 0)
				r.Pairs = append(r.Pairs, ReachPair{From: r.Hosts[from], To: r.Hosts[to], Family: family, Wanted: wanted, from: from, to: to, address: address})
			}
		}
	}
	return r
}

const (
	// reachRound is between two requests of a pair. Each further one is for a pair that shall answer, and has not: first packets may be lost while
	// neighbours are looked for.
	reachRound = 100 * time.Millisecond
	// reachPatience is how long answers of pairs that shall answer are waited for: a starved machine takes seconds.
	reachPatience = 20 * time.Second
	// reachQuiet is how long answers that must not come are waited for, once all pairs that shall answer have answered again.
	reachQuiet = 200 * time.Millisecond
)

// reach asks all pairs at the same time. The last round is for those that shall answer alone, behind all requests that must not be answered: with the
// answers to that round those to the others would have come.
func (l *Lab) reach(ctx context.Context, t *Traffic, progress Progress) (*Reach, error) {
	r := l.config.newReach(t)
	meter := progress.Begin(fmt.Sprintf("reach %d hosts of %d tenants", len(r.Hosts), len(t.Tenants)), int64(len(r.Pairs)))
	defer meter.Done()
	a := &reachAsker{lab: l, reach: r, secret: rand.Uint64(), answered: make(chan reachAnswer, 1024)}
	defer a.close()
	if err := a.open(); err != nil {
		return r, err
	}
	for round := range t.Count {
		for i := range r.Pairs {
			if p := &r.Pairs[i]; !p.Wanted || round == 0 {
				a.ask(i, 0)
			}
		}
		if err := a.listen(ctx, reachRound); err != nil {
			return r, err
		}
	}
	for last := range 2 { // rounds in which all that shall answer have to
		begun := time.Now()
		for !a.complete(last) && time.Since(begun) < reachPatience {
			for i := range r.Pairs {
				if p := &r.Pairs[i]; p.Wanted && a.rounds[i]&(1<<last) == 0 {
					a.ask(i, last)
				}
			}
			if err := a.listen(ctx, reachRound); err != nil {
				return r, err
			}
		}
	}
	err := a.listen(ctx, reachQuiet)
	meter.Add(int64(len(r.Pairs)))
	for i := range r.Pairs {
		p := &r.Pairs[i]
		p.Got = a.rounds[i] != 0 && (!p.Wanted || a.rounds[i] == 3)
	}
	return r, err
}

// reachAsker asks, and notes answers.
type reachAsker struct {
	lab      *Lab
	reach    *Reach
	secret   uint64
	conns    map[[2]int]net.PacketConn // by host and family
	answered chan reachAnswer
	rounds   []uint8 // by pair: in which of the two rounds there was an answer
}

type reachAnswer struct {
	pair  uint32
	round uint8
}

// reachMark is the secret, the pair and the round.
const reachMark = 8 + 4 + 1

func (a *reachAsker) open() error {
	a.conns, a.rounds = map[[2]int]net.PacketConn{}, make([]uint8, len(a.reach.Pairs))
	for i := range a.reach.Pairs {
		p := &a.reach.Pairs[i]
		at := [2]int{p.from, p.Family}
		if a.conns[at] != nil {
			continue
		}
		source, _ := a.lab.config.host(p.From).address(p.Family)
		conn, err := a.lab.spaces[p.From].ListenPacket(echoes[p.Family].network, source.String())
		if err != nil {
			return err
		}
		a.conns[at] = conn
		go a.receive(conn, echoes[p.Family])
	}
	return nil
}

func (a *reachAsker) close() {
	for _, conn := range a.conns {
		_ = conn.Close()
	}
}

// receive passes on the pairs whose replies come, until the connection is closed.
func (a *reachAsker) receive(conn net.PacketConn, kind echo) {
	buf := make([]byte, 2048)
	secret := binary.BigEndian.AppendUint64(nil, a.secret)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		m := buf[:n]
		if n < echoHeader+reachMark || m[0] != kind.reply || !bytes.Equal(m[echoHeader:echoHeader+8], secret) {
			continue
		}
		m = m[echoHeader+8:]
		select {
		case a.answered <- reachAnswer{binary.BigEndian.Uint32(m), m[4]}:
		default: // asked again
		}
	}
}

// ask sends a request of a pair. A host that knows no way to the other one does not send.
func (a *reachAsker) ask(pair, round int) {
	p := &a.reach.Pairs[pair]
	kind := echoes[p.Family]
	m := make([]byte, echoHeader, echoHeader+64)
	m[0] = kind.request
	binary.BigEndian.PutUint16(m[4:], uint16(p.from))
	binary.BigEndian.PutUint16(m[6:], uint16(pair))
	m = binary.BigEndian.AppendUint64(m, a.secret)
	m = binary.BigEndian.AppendUint32(m, uint32(pair))
	m = append(m, byte(round))
	if kind.checksum {
		binary.BigEndian.PutUint16(m[2:], header.Checksum(m))
	}
	p.requested++
	_, _ = a.conns[[2]int{p.from, p.Family}].WriteTo(m, &net.IPAddr{IP: p.address.AsSlice()})
}

// listen notes answers for a while.
func (a *reachAsker) listen(ctx context.Context, while time.Duration) error {
	end := time.NewTimer(while)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case got := <-a.answered:
			if int(got.pair) < len(a.rounds) && got.round < 2 {
				a.rounds[got.pair] |= 1 << got.round
			}
		}
	}
}

// complete reports whether all pairs that shall answer have in a round.
func (a *reachAsker) complete(round int) bool {
	for i := range a.reach.Pairs {
		if a.reach.Pairs[i].Wanted && a.rounds[i]&(1<<round) == 0 {
			return false
		}
	}
	return true
}

// carryReach carries the load out, into a result.
func (l *Lab) carryReach(ctx context.Context, t *Traffic, progress Progress) Result {
	r := Result{Kind: t.Kind, Began: time.Now()}
	var err error
	r.Reach, err = l.reach(ctx, t, progress)
	for i := range r.Reach.Pairs {
		r.Sent += uint64(r.Reach.Pairs[i].requested)
	}
	r.Ended = time.Now()
	r.Seconds = r.Ended.Sub(r.Began).Seconds()
	if err != nil {
		r.ended(ctx, err)
	}
	return r
}

// sentence is the outcome in one line.
func (r *Reach) sentence() string {
	asked, reached, tenants := 0, 0, 0
	for i := range r.Pairs {
		asked++
		if r.Pairs[i].Wanted {
			reached++
		}
	}
	for _, tenant := range r.tenant {
		tenants = max(tenants, tenant+1)
	}
	leaked, unreached := r.wrong()
	s := fmt.Sprintf("reach %d hosts of %d tenants: %d pairs shall reach each other, and %d do; %d shall not, and %d do",
		len(r.Hosts), tenants, reached, reached-len(unreached), asked-reached, len(leaked))
	for what, pairs := range map[string][]string{"must not": leaked, "do not": unreached} {
		if len(pairs) > 0 {
			s += fmt.Sprintf("; %s: %s", what, strings.Join(pairs[:min(len(pairs), 10)], ", "))
		}
	}
	return s
}

// matrix has a row for each host that asked, and a column for each that was asked.
func (r *Reach) matrix() string {
	var b strings.Builder
	wide := 0
	for _, h := range r.Hosts {
		wide = max(wide, len(h))
	}
	fmt.Fprintf(&b, "        %-*s", wide, "")
	for _, h := range r.Hosts {
		fmt.Fprintf(&b, "  %-6s", h)
	}
	b.WriteByte('\n')
	for from, name := range r.Hosts {
		fmt.Fprintf(&b, "        %-*s", wide, name)
		for to := range r.Hosts {
			fmt.Fprintf(&b, "  %-*s", max(6, len(r.Hosts[to])), r.cell(from, to))
		}
		b.WriteByte('\n')
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// cell is what became of a pair: "yes" and "-" are as they shall be.
func (r *Reach) cell(from, to int) string {
	cell := ""
	for i := range r.Pairs {
		p := &r.Pairs[i]
		if p.from != from || p.to != to {
			continue
		}
		switch {
		case p.Got && !p.Wanted:
			return "CROSS"
		case !p.Got && p.Wanted:
			return "LOST"
		case p.Got:
			cell = "yes"
		default:
			cell = "-"
		}
	}
	return cell
}

// validateReach checks a load of kind reach.
func (c *Config) validateReach(f *faults, key string, t *Traffic) {
	if t.From != "" || t.To != "" {
		f.add("%s.from: each host asks each other one: leave from and to out", key)
	}
	if len(t.Tenants) == 0 {
		f.add("%s.tenants: missing: list each tenant's hosts, such as [[\"red1\", \"red2\"], [\"blue1\", \"blue2\"]]", key)
	}
	if t.Count < 1 || t.Count > 1000 {
		f.add("%s.count: %d: choose 1 to 1000 requests", key, t.Count)
	}
	seen := map[string]string{}
	add := func(key string, hosts []string) {
		for i, name := range hosts {
			at := fmt.Sprintf("%s[%d]", key, i)
			if h := c.host(name); h == nil {
				f.add("%s: %q is no host: %s", at, name, c.suggestHost(name))
			} else if len(h.prefixes()) == 0 {
				f.add("%s: %q has no address: give it one", at, name)
			}
			if other, ok := seen[name]; ok {
				f.add("%s: %q is at %s too: a host has one place", at, name, other)
			}
			seen[name] = at
		}
	}
	for i, tenant := range t.Tenants {
		add(fmt.Sprintf("%s.tenants[%d]", key, i), tenant)
	}
	add(key+".outside", t.Outside)
	if len(seen) < 2 {
		f.add("%s.tenants: %d host: name two or more", key, len(seen))
	}
}
