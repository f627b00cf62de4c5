package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
	"github.com/weirswitch/weir/internal/handover"
)

// takeoversVariable is how many takeovers follow each other in tests of takeovers.
const takeoversVariable = "WEIR_TAKEOVERS"

// takeovers is how many takeovers follow each other in a test: by takeoversVariable, else so many, or few with -short.
func takeovers(t *testing.T, many, few int) int {
	t.Helper()
	if text := os.Getenv(takeoversVariable); text != "" {
		n, err := strconv.Atoi(text)
		must(t, err)
		return n
	}
	if testing.Short() {
		return few
	}
	return many
}

// takeable edits the configuration of a switch that can be taken over.
var takeable = []string{"[control]", "[control]\ntakeover = true"}

// takeOver starts a process that takes the switch of old over, and waits for the end of the old one, which must be clean.
func (b *testbed) takeOver(t *testing.T, config string, old *process) *process {
	t.Helper()
	p := &process{cmd: weirCommand("switch", "-c", config, "--takeover", "--report", "json")}
	b.startCommand(t, p)
	_ = old.cmd.Wait()
	if status := old.cmd.ProcessState.ExitCode(); status != 0 {
		t.Fatalf("the old process ended with %d: %s", status, &old.stderr)
	}
	return p
}

// blockedPattern finds in the log of a process how long no packet was forwarded when it took the switch over.
var blockedPattern = regexp.MustCompile(`took the switch over.*"blocked": "([^"]*)"`)

func (p *process) blocked(t *testing.T) time.Duration {
	t.Helper()
	var m []string
	awaitThat(t, "the log to say how long no packet was forwarded", func() (string, bool) { // what the process has written may not have been read yet
		text := p.stderr.String()
		m = blockedPattern.FindStringSubmatch(text)
		return text, m != nil
	})
	d, err := time.ParseDuration(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// kept holds a process's last report to the books: they balance, and all frames are accounted for.
func (p *process) kept(t *testing.T) lastReport {
	t.Helper()
	r := p.report(t)
	if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		t.Errorf("the books of a process: %+v", r)
	}
	return r
}

// stream is a TCP connection between the hosts, through which random bytes go while a test does something else.
type stream struct {
	listener net.Listener
	stop     chan struct{}
	results  chan error
	sent     [2]uint64
	sums     [2][32]byte
}

func (b *testbed) stream(t *testing.T) *stream {
	t.Helper()
	return startStream(t, b.hosts[0], b.hosts[1], "10.0.0.2:7000", "10.0.0.2:7000")
}

// startStream begins a stream from a client to an address, at which a server listens, or which is translated to where it does.
func startStream(t *testing.T, client, server *netnstest.Host, to, at string) *stream {
	t.Helper()
	s := &stream{stop: make(chan struct{}), results: make(chan error, 2)}
	must(t, server.NS.Do(func() (err error) {
		s.listener, err = net.Listen("tcp", at)
		return err
	}))
	t.Cleanup(func() { _ = s.listener.Close() })
	go func() {
		s.results <- func() error {
			c, err := s.listener.Accept()
			if err != nil {
				return err
			}
			defer c.Close()
			h := sha256.New()
			n, err := io.Copy(h, c)
			s.sent[1] = uint64(n)
			h.Sum(s.sums[1][:0])
			return err
		}()
	}()
	var c net.Conn
	must(t, client.NS.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", to, time.Minute)
		return err
	}))
	go func() {
		s.results <- func() error {
			defer c.Close()
			h, random, buf := sha256.New(), rand.NewChaCha8([32]byte{1}), make([]byte, 16<<10)
			for {
				select {
				case <-s.stop:
					h.Sum(s.sums[0][:0])
					return nil
				default:
				}
				_, _ = random.Read(buf)
				if _, err := c.Write(buf); err != nil {
					return err
				}
				h.Write(buf)
				s.sent[0] += uint64(len(buf))
			}
		}()
	}()
	return s
}

// end ends the stream, of which every byte must have arrived.
func (s *stream) end(t *testing.T) (bytes uint64) {
	t.Helper()
	close(s.stop)
	for range 2 {
		if err := <-s.results; err != nil {
			t.Errorf("TCP: %v", err)
		}
	}
	if s.sent[0] != s.sent[1] || s.sums[0] != s.sums[1] || s.sent[0] == 0 {
		t.Errorf("TCP: %d bytes were sent and %d received, or they differ", s.sent[0], s.sent[1])
	}
	return s.sent[0]
}

// TestTakeover: processes take a switch over from each other, many times, while numbered packets and a TCP connection pass. No packet
// is lost, and each process's books balance.
func TestTakeover(t *testing.T) {
	b := newTestbed(t, 0)
	times := 3
	if text := os.Getenv(takeoversVariable); text != "" {
		var err error
		times, err = strconv.Atoi(text)
		must(t, err)
	}
	config := b.config(t, "s1", takeable...)
	p := b.start(t, config)
	s := b.stream(t)
	l := traffictest.Start(t, b.hosts[0], b.hosts[1:], 128, 500, uint64(max(1500, 500*times)))
	var blocked []time.Duration
	forwarded := uint64(0)
	for i := range times {
		old := p
		p = b.takeOver(t, config, old)
		forwarded += old.kept(t).Forwarded
		if i > 0 {
			blocked = append(blocked, old.blocked(t))
		}
	}
	sent, at := l.Received(t)
	bytes := s.end(t)
	if at[0] != sent {
		t.Errorf("%d of %d packets are lost", int64(sent)-int64(at[0]), sent)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("the last process ended with %d: %s", status, &p.stderr)
	}
	forwarded += p.kept(t).Forwarded
	blocked = append(blocked, p.blocked(t))
	if forwarded < sent {
		t.Errorf("the processes forwarded %d packets, and %d arrived", forwarded, sent)
	}
	slices.Sort(blocked)
	fmt.Printf("%d takeovers under TCP (%d MiB) and %d packets: lost %d, blocked for %v to %v, median %v\n",
		times, bytes>>20, sent, int64(sent)-int64(at[0]), blocked[0], blocked[len(blocked)-1], blocked[len(blocked)/2])
	b.checkClean(t)
	b.checkNoTakeover(t)
}

func (b *testbed) checkNoTakeover(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(b.dir, "*.takeover")); len(left) != 0 {
		t.Errorf("sockets are left: %v", left)
	}
}

// failTakeover runs a process that cannot take the switch over, and returns what it says.
func (b *testbed) failTakeover(t *testing.T, config string, become func(*exec.Cmd)) string {
	t.Helper()
	p := &process{cmd: weirCommand("switch", "-c", config, "--takeover")}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if become != nil {
		become(p.cmd)
	}
	must(t, b.ns.Start(p.cmd))
	_ = p.cmd.Wait()
	if status := p.cmd.ProcessState.ExitCode(); status == 0 {
		t.Error("the takeover was not refused")
	}
	return p.stderr.String()
}

// half speaks the new process's side up to a message, and then ends as a process that crashes.
func (b *testbed) half(t *testing.T, say func(c *handover.Conn)) {
	t.Helper()
	raw, err := net.Dial("unix", filepath.Join(b.dir, "s1.takeover"))
	must(t, err)
	defer raw.Close()
	c := handover.NewConn(raw.(*net.UnixConn))
	must(t, c.SetDeadline(time.Now().Add(time.Minute)))
	say(c)
}

// next receives a message and closes its files.
func next(t *testing.T, c *handover.Conn) handover.Kind {
	t.Helper()
	m, err := c.Next()
	must(t, err)
	m.Close()
	return m.Kind
}

// TestTakeoverRefused: a takeover that fails in any phase costs nothing: the old process goes on, without a packet lost.
func TestTakeoverRefused(t *testing.T) {
	b := newTestbed(t, 0)
	config := b.config(t, "s1", takeable...)
	p := b.start(t, config)
	refused := 0 // by the old process
	hello := map[string]any{"name": "s1", "process": os.Getpid()}
	ports := func(c *handover.Conn) {
		must(t, c.Send(sayHello, hello, nil))
		next(t, c) // the offer
		for range 2 {
			if k := next(t, c); k != sayPort {
				t.Fatalf("message %d, and no port", k)
			}
		}
	}
	other := func(name string, edit ...string) string {
		path := b.config(t, "s1", append(slices.Clone(takeable), edit...)...)
		moved := filepath.Join(b.dir, name)
		must(t, os.Rename(path, moved))
		b.config(t, "s1", takeable...)
		return moved
	}
	for _, c := range []struct {
		name string
		want string // in the log of the old process
		do   func(t *testing.T) (says string)
		tell string // in what the new one says
	}{
		{"bad configuration", "", func(t *testing.T) string {
			return b.failTakeover(t, other("bad.toml", "patch\"]", "patsch\"]"), nil)
		}, "patsch"},
		{"no such interface", "", func(t *testing.T) string {
			return b.failTakeover(t, other("ports.toml", "interface = \"p1\"", "interface = \"p7\"", `"p1"]]`, `"p7"]]`), nil)
		}, "no interface p7"},
		{"fewer ports", "port p1 is missing here", func(t *testing.T) string {
			return b.failTakeover(t, other("fewer.toml", "[[port]]\ninterface = \"p1\"\n", "", `"patch"`, `"l2"`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", ""), nil)
		}, "port p1 is missing here"},
		{"port configured otherwise", "port[1].tx_budget of port p1 is 0 there and 64 here", func(t *testing.T) string {
			return b.failTakeover(t, other("budget.toml", "interface = \"p1\"", "interface = \"p1\"\ntx_budget = 64"), nil)
		}, "port[1].tx_budget of port p1 is 0 there and 64 here"},
		{"a rate that is not there", "rate_bits or classes", func(t *testing.T) string {
			return b.failTakeover(t, other("rate.toml", "interface = \"p1\"", "interface = \"p1\"\nrate_bits = 1_000_000"), nil)
		}, "port p1 has rate_bits or classes there and not here, or here and not there"},
		{"more workers", "workers.count is 1 there and 2 here", func(t *testing.T) string {
			return b.failTakeover(t, other("workers.toml", "[workers]", "[workers]\ncount = 2"), nil)
		}, "workers.count is 1 there and 2 here"},
		{"no permission", "", func(t *testing.T) string {
			// Another user reads neither the test's folders nor, perhaps, the program's.
			open, err := os.MkdirTemp("", "weir-takeover-")
			must(t, err)
			defer os.RemoveAll(open)
			must(t, os.Chmod(open, 0o755))
			program, err := os.Executable()
			must(t, err)
			for from, to := range map[string]string{config: "s1.toml", program: "weir"} {
				data, err := os.ReadFile(from)
				must(t, err)
				must(t, os.WriteFile(filepath.Join(open, to), data, 0o755))
			}
			return b.failTakeover(t, filepath.Join(open, "s1.toml"), func(cmd *exec.Cmd) {
				cmd.Path = filepath.Join(open, "weir")
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			})
		}, "no privilege"},
		{"another version", "another version", func(t *testing.T) string {
			b.half(t, func(c *handover.Conn) {
				c.Speak(handover.Version + 1)
				must(t, c.Send(sayHello, hello, nil))
				if _, err := c.Next(); err == nil {
					t.Error("a hello of another version was answered")
				}
			})
			return ""
		}, ""},
		{"another switch", "this is switch s1, and not s2", func(t *testing.T) string {
			b.half(t, func(c *handover.Conn) {
				must(t, c.Send(sayHello, map[string]any{"name": "s2"}, nil))
				if _, err := c.Next(); err == nil || !strings.Contains(err.Error(), "this is switch s1") {
					t.Errorf("a hello for another switch was answered by %v", err)
				}
			})
			return ""
		}, ""},
		{"nothing said", "unexpected EOF", func(t *testing.T) string { b.half(t, func(*handover.Conn) {}); return "" }, ""},
		{"garbage", "no message of a takeover", func(t *testing.T) string {
			b.half(t, func(c *handover.Conn) {
				_, err := c.Write(make([]byte, 4096))
				must(t, err)
				_, _ = c.Next()
			})
			return ""
		}, ""},
		{"ended after the offer", "unexpected EOF", func(t *testing.T) string { b.half(t, ports); return "" }, ""},
		{"ended while the workers rest", "no packet was forwarded for", func(t *testing.T) string {
			b.half(t, func(c *handover.Conn) {
				ports(c)
				must(t, c.Send(sayRest, nil, nil))
				next(t, c)
			})
			return ""
		}, ""},
		{"ended with all states", "no packet was forwarded for", func(t *testing.T) string {
			b.half(t, func(c *handover.Conn) {
				ports(c)
				must(t, c.Send(sayRest, nil, nil))
				for next(t, c) != sayEnd {
				}
			})
			return ""
		}, ""},
		{"refused with all states", "the frames do not add up", func(t *testing.T) string {
			b.half(t, func(c *handover.Conn) {
				ports(c)
				must(t, c.Send(sayRest, nil, nil))
				for next(t, c) != sayEnd {
				}
				c.Refuse(fmt.Errorf("the frames do not add up"))
			})
			return ""
		}, ""},
		{"silent with all states", "i/o timeout", func(t *testing.T) string {
			b.half(t, func(c *handover.Conn) {
				ports(c)
				must(t, c.Send(sayRest, nil, nil))
				for next(t, c) != sayEnd {
				}
				if _, err := c.Next(); err == nil {
					t.Error("the old process waits for ever")
				}
			})
			return ""
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := len(p.stderr.String())
			if says := c.do(t); !strings.Contains(says, c.tell) {
				t.Errorf("the new process says %q, and nothing of %q", says, c.tell)
			}
			if c.want == "" {
				b.exchange(t, 20)
				if log := p.stderr.String()[from:]; strings.Contains(log, "takeover") {
					t.Errorf("the old process was not asked, and its log says %s", log)
				}
				return
			}
			p.awaitLog(t, from, "takeover refused, the switch goes on")
			p.awaitLog(t, from, c.want)
			b.exchange(t, 20)
			refused++
		})
	}
	// Each is logged once. And then one succeeds.
	if n := strings.Count(p.stderr.String(), "takeover refused, the switch goes on"); n != refused {
		t.Errorf("the old process refused %d takeovers, and %d were to be", n, refused)
	}
	q := b.takeOver(t, config, p)
	b.exchange(t, 20)
	p.kept(t)
	if status := q.stop(t); status != 0 {
		t.Errorf("the new process ended with %d: %s", status, &q.stderr)
	}
	q.kept(t)
	b.checkClean(t)
	b.checkNoTakeover(t)
}

// TestTakeoverState: the stations of a bridge and the neighbours of a router are known to the process that takes the switch over, before any
// packet.
func TestTakeoverState(t *testing.T) {
	b := newTestbed(t, 0)
	for _, c := range []struct {
		name  string
		edit  []string
		learn func()
		show  []string
		want  []string // in each line of the table, of which there are as many
	}{
		{"bridge", []string{`"patch"`, `"l2"`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", ""}, func() { b.exchange(t, 5) },
			[]string{"show", "fdb"}, []string{"02:00:00:00:01:01 ", "02:00:00:00:01:02 "}},
		{"VLAN subinterface", []string{`"parse", "patch"`, `"parse", "vlan", "l2", "tag"`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", "[[port]]\ndriver = \"vlan\"\nparent = \"p0\"\nvlan = 5\n"},
			func() {}, []string{"show", "ports"}, []string{"p0.5 "}},
		{"bridge with a port of the host", []string{`"patch"`, `"l2"`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n", "[[port]]\ninterface = \"host0\"\ndriver = \"tap\"\n"}, func() {
			must(t, b.ns.AddAddress("host0", netip.MustParsePrefix("10.0.0.9/24")))
			mac, err := b.ns.MAC("host0")
			must(t, err)
			must(t, b.hosts[0].NS.AddNeighbour(b.hosts[0].Interface, netip.MustParseAddr("10.0.0.9"), mac))
			must(t, b.ns.AddNeighbour("host0", b.hosts[0].Addresses[0].Addr(), b.hosts[0].MAC))
			must(t, b.ns.Do(func() error { return exec.Command("ping", "-c", "1", "-W", "1", "10.0.0.1").Run() }))
		}, []string{"show", "fdb"}, []string{"host0 "}},
		{"router", []string{`"patch"`, `"l3"`, "[stages.patch]\npairs = [[\"p0\", \"p1\"]]\n",
			"[[stages.l3.interface]]\nport = \"p0\"\naddresses = [\"10.0.0.254/24\"]\n"}, func() {
			must(t, b.hosts[0].NS.Do(func() error {
				return exec.Command("ping", "-c", "1", "-W", "20", "10.0.0.254").Run()
			}))
		}, []string{"show", "neighbours"}, []string{"10.0.0.1 "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "router" {
				must(t, b.hosts[0].NS.SetARP(b.hosts[0].Interface, true))
			}
			config := b.config(t, "s1", append(slices.Clone(takeable), c.edit...)...)
			p := b.start(t, config)
			c.learn()
			table := func() string {
				status, out, errs := weir(append(append([]string{"ctl"}, c.show...), "--socket", b.socket("s1"))...)
				if status != 0 {
					t.Fatal(errs)
				}
				return out
			}
			has := func(out string) bool {
				for _, w := range c.want {
					if !strings.Contains(out, w) {
						return false
					}
				}
				return true
			}
			awaitThat(t, "the table to have what was learned", func() (string, bool) { out := table(); return out, has(out) })
			q := b.takeOver(t, config, p)
			if out := table(); !has(out) {
				t.Errorf("the new process does not know %q: %s", c.want, out)
			}
			if status := q.stop(t); status != 0 {
				t.Errorf("the new process ended with %d: %s", status, &q.stderr)
			}
			p.kept(t)
			q.kept(t)
		})
	}
	b.checkClean(t)
}

// loadVariable has TestTakeoverLoad measure.
const loadVariable = "WEIR_TAKEOVER_LOAD"

// TestTakeoverLoad measures how long no packet is forwarded, and what is lost, in takeovers at half of the highest rate without loss.
func TestTakeoverLoad(t *testing.T) {
	if os.Getenv(loadVariable) == "" {
		t.Skip("measures: set " + loadVariable + "=1")
	}
	b := newTestbed(t, 0)
	config := b.config(t, "s1", append(slices.Clone(takeable), "audit = true", "audit = false")...)
	p := b.start(t, config)
	// arrived is what has come when nothing comes any more.
	arrived := func(l *traffictest.Load) (sent, received uint64) {
		sent = l.Wait()
		for quiet := 0; quiet < 10 && received < sent; time.Sleep(50 * time.Millisecond) {
			r, err := l.Sinks[0].Report()
			must(t, err)
			if quiet++; r.Unique() != received {
				quiet, received = 0, r.Unique()
			}
		}
		return sent, received
	}
	ndr := 0.0
	for rate := 20e3; rate < 2e6; rate *= 1.25 {
		l := traffictest.Start(t, b.hosts[0], b.hosts[1:], 64, rate, uint64(rate))
		start := time.Now()
		sent, received := arrived(l)
		fmt.Printf("rate %.0f/s: sent %d in %v, lost %d\n", rate, sent, time.Since(start).Round(time.Millisecond), sent-received)
		if sent != received || time.Since(start) > 2*time.Second {
			break
		}
		ndr = rate
	}
	fmt.Printf("NDR %.0f packets/s\n", ndr)
	losses := regexp.MustCompile(`"(received|forwarded|rx_ring_full|rx_no_frame|rx_dropped|no_socket|link_tx_drops|link_rx_errors|tx_unsent)":[1-9][0-9]*`)
	for i := range 8 {
		old := p
		l := traffictest.Start(t, b.hosts[0], b.hosts[1:], 64, ndr/2, uint64(ndr))
		p = b.takeOver(t, config, old)
		sent, received := arrived(l)
		_, shown, _ := weir("ctl", "--socket", b.socket("s1"), "show", "ports", "--json")
		fmt.Printf("takeover %d at %.0f packets/s: sent %d, lost %d, %s; old %v; new %v\n", i+1, ndr/2, sent, sent-received,
			regexp.MustCompile(`"blocked": "[^"]*"`).FindString(old.stderr.String()),
			losses.FindAllString(old.stdout.String(), -1), losses.FindAllString(strings.ReplaceAll(shown, ": ", ":"), -1))
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("the last process ended with %d: %s", status, &p.stderr)
	}
}

// TestTakeoverRecords: what the processes measured before and after takeovers adds up to all packets, none twice, and the spool has all records.
func TestTakeoverRecords(t *testing.T) {
	b := newTestbed(t, 0)
	spool := filepath.Join(b.dir, "spool")
	text := fmt.Sprintf("[telemetry]\nspool = %q\n[stages.disketch]\nepoch_bits = 28\n", spool) +
		"[[stages.disketch.fragment]]\nkind = \"countmin\"\nmemory = 4096\n[[stages.disketch.fragment]]\nkind = \"countsketch\"\nmemory = 4096\n[control]\ntakeover = true"
	config := b.config(t, "s1", `"parse", "patch"`, `"parse", "patch", "disketch"`, "[control]", text)
	p := b.start(t, config)
	const frames, takeovers = 50, 2
	b.exchange(t, frames)
	for range takeovers {
		old := p
		p = b.takeOver(t, config, old)
		old.kept(t)
		b.exchange(t, frames)
	}
	if status := p.stop(t); status != 0 {
		t.Errorf("status %d: %s", status, &p.stderr)
	}
	s, records := readSums(t, spool)
	for f := range uint16(2) {
		if got := s.total(f); got != 2*frames*(takeovers+1) {
			t.Errorf("fragment %d: %d seen and %d missed, in %d records; %d were sent", f, s.seen[f], s.missed[f], records, 2*frames*(takeovers+1))
		}
	}
	b.checkClean(t)
}
