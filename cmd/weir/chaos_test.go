package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsstream "github.com/nats-io/nats.go/jetstream"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
)

// The environment of TestChaos: how long it goes on, and which faults there are. Without, it goes on for chaosLeast.
const (
	chaosTime  = "WEIR_CHAOS"
	chaosSeed  = "WEIR_CHAOS_SEED"
	chaosLeast = 20 * time.Second
)

// The sizes of TestChaos, and the memory that a process may have, in bytes: a collector's store and what its questions may take,
// some more for what all programs have.
const (
	chaosSwitches, chaosCollectors, chaosServers = 6, 2, 3

	chaosStore = 64 << 20
	chaosBound = 1 << 30

	chaosFlows, chaosPort = 8, 7 // of the load, and their first source port
)

// chaos is a chain of switches that measure, under a load of packets, with servers and collectors.
type chaos struct {
	*shipBed
	t          *testing.T
	switches   [chaosSwitches]*process
	configs    [chaosSwitches]string
	collectors [chaosCollectors]*process
	collect    [chaosCollectors]string
	servers    [chaosServers]*natsNode
	js         natsstream.JetStream
	sent       [chaosFlows]atomic.Int64 // packets of the host by flow, at most
	faults     map[string]int
	answers    map[string]int // by kind of question, that were held to what was sent
	number     int64

	// Records that a switch said to have sent, for its life up to now and for those before; of a life that a kill ended, when it was last
	// asked.
	now, before [chaosSwitches]uint64
}

// TestChaos has random faults happen to a chain of six switches with two collectors and three servers for as long as
// WEIR_CHAOS says, and checks all along that counters add up, that answers are within what there was, and that no process has had more
// memory than it may. At the end, all is well again: the stream has each record that a switch counts as sent, once, and both collectors have all of it.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	length := chaosLeast
	if text := os.Getenv(chaosTime); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", chaosTime, err)
		}
	}
	seed, _ := strconv.ParseUint(os.Getenv(chaosSeed), 10, 64)
	c := newChaos(t, seed)
	defer c.load()()
	began := time.Now()
	for round := 0; time.Since(began) < length; round++ {
		name := c.fault()
		c.check()
		t.Logf("%v: fault %d, %s; %d packets sent at most", time.Since(began).Round(time.Second), round+1, name, c.packets())
	}
	c.heal()
	t.Logf("seed %d, %v: %v; answers held to what was sent: %v; %d packets", seed, time.Since(began).Round(time.Second), c.faults, c.answers, c.packets())
}

// packets were sent by all flows, at most.
func (c *chaos) packets() (n int64) {
	for i := range c.sent {
		n += c.sent[i].Load()
	}
	return n
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{shipBed: newShipBed(t), t: t, faults: map[string]int{}, answers: map[string]int{}}
	c.random = rand.New(rand.NewPCG(seed, 26))
	// p0 leads into the first switch, p1 out of the last one; between them there are cables in the namespace.
	for i := range chaosSwitches - 1 {
		must(t, c.ns.Netlink().LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("c%da", i)}, PeerName: fmt.Sprintf("c%db", i)}))
		for _, end := range []string{"a", "b"} {
			must(t, c.ns.SetUp(fmt.Sprintf("c%d%s", i, end)))
		}
	}
	var ports []int
	for i := range c.servers {
		ports = append(ports, 6222+i)
	}
	var urls []string
	for i := range c.servers {
		c.servers[i] = newNATS(t, c.ns, natsOptions{Name: fmt.Sprint("n", i), Host: "127.0.0.1", Port: 4222 + i, Dir: t.TempDir(), Cluster: 6222 + i, Routes: ports})
		urls = append(urls, fmt.Sprintf("%q", "nats://"+c.servers[i].address()))
	}
	_, c.js = client(t, c.ns, c.servers[:]...)
	servers := "[" + strings.Join(urls, ", ") + "]"
	for i := range c.collect {
		c.collect[i] = c.dir2(fmt.Sprintf("collect%d.toml", i))
		text := fmt.Sprintf("[collect]\nname = \"c%d\"\nlisten = \"127.0.0.1:%d\"\n[nats]\nservers = %s\nreplicas = 3\n[store]\nbytes = %d\n[limits]\nbytes = 67108864\n",
			i, 9470+i, servers, chaosStore)
		must(t, os.WriteFile(c.collect[i], []byte(text), 0o600))
		c.startCollector(i)
	}
	for i := range c.switches {
		in, out := fmt.Sprintf("c%db", i-1), fmt.Sprintf("c%da", i)
		if i == 0 {
			in = "p0"
		}
		if i == chaosSwitches-1 {
			out = "p1"
		}
		spool := c.spool(i)
		must(t, os.Mkdir(spool, 0o700))
		must(t, unix.Mount("tmpfs", spool, "tmpfs", 0, "size=8m,mode=700"))
		t.Cleanup(func() { _ = unix.Unmount(spool, unix.MNT_DETACH) })
		name := fmt.Sprintf("s%d", i+1)
		c.configs[i] = c.config(t, name, "[dataplane]", fmt.Sprintf("id = %d\n[dataplane]", i+1), `"parse", "patch"`, `"parse", "oblivious", "patch"`,
			`interface = "p0"`, fmt.Sprintf("interface = %q", in), `interface = "p1"`, fmt.Sprintf("interface = %q", out),
			`[["p0", "p1"]]`, fmt.Sprintf("[[%q, %q]]", in, out),
			"[control]", fmt.Sprintf("[stages.oblivious]\nsize = 200\nepoch_bits = 29\n[telemetry]\nbudget = \"none\"\ncollector = %s\nspool = %q\nspool_bytes = 4194304\n[control]", servers, spool))
		c.switches[i] = c.start(t, c.configs[i])
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *chaos) spool(i int) string { return c.dir2(fmt.Sprintf("spool%d", i+1)) }

func (c *chaos) startCollector(i int) {
	c.collectors[i] = &process{cmd: weirCommand("collect", "-c", c.collect[i])}
	c.startCommand(c.t, c.collectors[i])
}

// load sends packets through the chain until the function that it returns is called.
func (c *chaos) load() (stop func()) {
	socket, end := c.hosts[0].Packet(c.t), make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		for n := uint32(0); ; n++ {
			select {
			case <-end:
				return
			case <-time.After(500 * time.Microsecond):
			}
			c.sent[n%chaosFlows].Add(1)
			_ = socket.Send(chaosFrame(n)) // fails while there is no switch
		}
	})
	return func() { close(end); sending.Wait() }
}

// chaosFrame is a datagram of one of the load's flows; those of a flood come again in the next one.
func chaosFrame(n uint32) []byte {
	f := udpFrame(uint16(n))
	f[35] = byte(chaosPort + n%chaosFlows) // the source port's lower byte
	binary.BigEndian.PutUint32(f[42:], n)
	return f
}

// fault has one thing go wrong for a moment, and returns its name.
func (c *chaos) fault() string {
	t, sw, co, se := c.t, c.random.IntN(chaosSwitches), c.random.IntN(chaosCollectors), c.random.IntN(chaosServers)
	pause := func(pid int, most time.Duration) {
		must(t, unix.Kill(pid, unix.SIGSTOP))
		c.moment(most)
		must(t, unix.Kill(pid, unix.SIGCONT))
	}
	all := []struct {
		name string
		do   func()
	}{
		{"kill a switch", func() {
			c.switches[sw].kill()
			c.ended(sw)
			c.moment(time.Second)
			c.switches[sw] = c.start(t, c.configs[sw])
		}},
		{"end a switch", func() {
			if status := c.switches[sw].stop(t); status != 0 {
				t.Errorf("switch %d ends with status %d: %s", sw+1, status, &c.switches[sw].stderr)
			}
			if r := c.switches[sw].report(t); !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
				t.Errorf("last report of switch %d: %+v", sw+1, r)
			}
			c.noted(sw, lastRecords(t, c.switches[sw]))
			c.ended(sw)
			c.switches[sw] = c.start(t, c.configs[sw])
		}},
		{"stop a switch", func() { pause(c.switches[sw].cmd.Process.Pid, time.Second) }},
		{"kill a collector", func() {
			c.collectors[co].kill()
			c.moment(time.Second)
			c.startCollector(co)
		}},
		{"stop a collector", func() { pause(c.collectors[co].cmd.Process.Pid, 2*time.Second) }},
		{"kill a server", func() {
			c.servers[se].kill()
			c.moment(3 * time.Second)
			c.servers[se].start(t)
		}},
		{"stop a server", func() { pause(c.servers[se].cmd.Process.Pid, 3*time.Second) }},
		{"cut a cable", func() {
			name := fmt.Sprintf("c%da", c.random.IntN(chaosSwitches-1))
			must(t, c.ns.SetDown(name))
			c.moment(2 * time.Second)
			must(t, c.ns.SetUp(name))
		}},
		{"cut the network of records", func() {
			must(t, c.ns.SetDown("lo"))
			c.moment(3 * time.Second)
			must(t, c.ns.SetUp("lo"))
		}},
		{"a flood of packets", func() {
			socket := c.hosts[0].Packet(t)
			for n := range uint32(20_000) {
				c.sent[n%chaosFlows].Add(1)
				_ = socket.Send(chaosFrame(1<<31 + n))
			}
		}},
		{"fill a disk", func() {
			path := filepath.Join(c.spool(sw), "filler")
			if f, err := os.Create(path); err == nil {
				block := make([]byte, 1<<16)
				for err == nil {
					_, err = f.Write(block)
				}
				_ = f.Close()
			}
			c.moment(3 * time.Second)
			must(t, os.Remove(path))
		}},
		{"a clock that is ahead", func() { c.hostile(1, 110*time.Second) }},
		{"a flood of records", func() { c.hostile(2000, 0) }},
		{"a flood of connections", func() {
			for range 400 {
				if conn, err := c.ns.Dial(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 9470+co)); err == nil {
					defer conn.Close()
				}
			}
			c.ask(co)
		}},
	}
	f := all[c.random.IntN(len(all))]
	c.faults[f.name]++
	f.do()
	c.moment(time.Second)
	return f.name
}

// noted takes what a switch says to have sent, but for what the stream had already: a record that a kill kept from being noted as sent
// is sent again.
func (c *chaos) noted(i int, r *api.Records) {
	checkRecords(c.t, r)
	sent := uint64(0)
	for _, k := range r.Kinds {
		sent += k.Sent
	}
	c.now[i] = sent - min(sent, r.Duplicates)
}

// ended begins a switch's next life.
func (c *chaos) ended(i int) { c.before[i], c.now[i] = c.before[i]+c.now[i], 0 }

// hostile publishes records of a switch that is none of the chain, as many as it may.
func (c *chaos) hostile(n int, ahead time.Duration) {
	nc, _ := client(c.t, c.ns, c.servers[:]...)
	defer nc.Close()
	for range n {
		c.number++
		h := record.Header{Kind: record.Status, Switch: 66, Name: "s1", Start: clock.Kernel.TAI() + int64(ahead) - c.number<<20, Span: 1 << 20}
		b, err := record.Append(nil, &h, func(dst []byte) ([]byte, error) { return append(dst, make([]byte, 500)...), nil })
		must(c.t, err)
		_ = nc.Publish(jetstream.Subject(&h), b) // which is unreadable: its body is no status
	}
	_ = nc.FlushTimeout(time.Second) // a server may be away
}

// get asks a collector, nil: it does not answer now.
func (c *chaos) get(i int, method, path, body string, answer any) error {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.ns.Dial(ctx, network, address)
		}}}
	r, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", 9470+i, path), strings.NewReader(body))
	must(c.t, err)
	r.Header.Set("Content-Type", "application/json")
	got, err := client.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", got.Status)
	}
	return json.NewDecoder(got.Body).Decode(answer)
}

// ask asks a collector what passed, and holds the answers to what was sent.
func (c *chaos) ask(i int) {
	t, sent := c.t, float64(c.packets())
	var all struct {
		Volume       *query.Volume
		Frequency    *query.Frequency
		HeavyHitters *query.HeavyHitters `json:"heavy_hitters"`
	}
	question := func(q string) bool {
		all.Volume, all.Frequency, all.HeavyHitters = nil, nil, nil
		return c.get(i, http.MethodPost, "/weir.query.v1.QueryService/Ask", `{"question": {`+q+`}}`, &all) == nil // else it is behind, or has no record yet
	}
	// Values are estimates, and bounds hold with a probability: 1e-9 of each answer to fail by chance are 1e-4 in an hour.
	const sure = `, "confidence": 0.999999999`
	hold := func(kind string, p query.Bounded, least, most float64, answer any) {
		c.answers[kind]++
		if p.Low > p.Value || p.Value > p.High || p.Low > most || p.High < least {
			text, _ := json.Marshal(answer)
			t.Errorf("collector %d, %s: %+v packets; at least %v and at most %v passed: %.8000s", i, kind, p, least, most, text)
		}
	}
	if question(`"kind": "volume"`+sure) && all.Volume != nil {
		v, least := all.Volume, 0.
		for _, s := range v.PerSwitch {
			least = max(least, float64(s.Packets))
		}
		hold("volume", v.Packets, least, sent, v)
		if p := v.Packets; least > sent || p.High > float64(v.NaivePackets)+0.5 {
			t.Errorf("collector %d: %+v packets, of switches %d in sum and %v at most; %v were sent", i, p, v.NaivePackets, least, sent)
		}
	}
	flow := c.random.IntN(chaosFlows)
	if question(fmt.Sprintf(`"kind": "frequency", "flow": "10.0.0.1:%d > 10.0.0.2:8 udp"`, chaosPort+flow)+sure) && all.Frequency != nil && all.Frequency.Sample != nil {
		hold("frequency", all.Frequency.Sample.Packets, 0, float64(c.sent[flow].Load()), all.Frequency)
	}
	if question(`"kind": "heavy-hitters", "theta": 0.05`+sure) && all.HeavyHitters != nil {
		for _, f := range all.HeavyHitters.Flows {
			k, err := query.ParseKey(f.Flow)
			if flow := int(k.SrcPort) - chaosPort; err == nil && flow >= 0 && flow < chaosFlows {
				hold("heavy-hitters", f.Bounded, 0, float64(c.sent[flow].Load()), f)
			} else if k.DstPort == 8 {
				t.Errorf("collector %d: %s is no flow of the load: %v", i, f.Flow, err)
			}
		}
	}
}

// check holds all processes that answer to their counters, answers and memory.
func (c *chaos) check() {
	for i := range c.switches {
		status, stdout, _ := weir("ctl", "--socket", c.socket(fmt.Sprintf("s%d", i+1)), "show", "telemetry", "--json")
		var shown struct{ Records *api.Records }
		if status == 0 && json.Unmarshal([]byte(stdout), &shown) == nil && shown.Records != nil {
			c.noted(i, shown.Records)
		}
		c.memory(c.switches[i].cmd.Process.Pid, fmt.Sprintf("switch %d", i+1))
	}
	for i := range c.collectors {
		c.ask(i)
		c.memory(c.collectors[i].cmd.Process.Pid, fmt.Sprintf("collector %d", i))
	}
	for i := range c.servers {
		c.memory(c.servers[i].cmd.Process.Pid, fmt.Sprintf("server %d", i))
	}
}

// memory holds a process to its bound, as long as it has been there.
func (c *chaos) memory(pid int, who string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return // it has just ended
	}
	for line := range strings.Lines(string(text)) {
		if kb, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, _ := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if n<<10 > chaosBound {
				c.t.Errorf("%s has had %d MiB, and may have %d", who, n>>10, chaosBound>>20)
			}
		}
	}
}

// heal ends all switches once they have sent all, and holds both collectors to having the same.
func (c *chaos) heal() {
	t := c.t
	for i := range c.switches {
		name := fmt.Sprintf("s%d", i+1)
		awaitThat(t, "switch "+name+" to have sent what it had", func() (string, bool) {
			status, stdout, _ := weir("ctl", "--socket", c.socket(name), "show", "telemetry", "--json")
			var shown struct{ Records *api.Records }
			if status != 0 || json.Unmarshal([]byte(stdout), &shown) != nil || shown.Records == nil {
				return stdout, false
			}
			checkRecords(t, shown.Records)
			waiting := uint64(0)
			for _, k := range shown.Records.Kinds {
				waiting += k.Waiting
			}
			return stdout, shown.Records.State == "connected" && waiting < 100
		})
		if status := c.switches[i].stop(t); status != 0 {
			t.Errorf("switch %s ends with status %d: %s", name, status, &c.switches[i].stderr)
		}
		if r := c.switches[i].report(t); !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
			t.Errorf("last report of switch %s: %+v", name, r)
		}
		c.noted(i, lastRecords(t, c.switches[i]))
	}
	of := c.stream()
	for i := range c.collectors {
		type kind struct{ Kind, Records, Duplicates, Conflicts, Unreadable json.RawMessage }
		awaitThat(t, fmt.Sprintf("collector %d to have all", i), func() (string, bool) {
			var s struct{ Kinds []kind }
			err := c.get(i, http.MethodPost, "/weir.query.v1.QueryService/Collector", "{}", &s)
			got := map[string]uint64{}
			for _, k := range s.Kinds {
				for i, n := range []json.RawMessage{k.Records, k.Duplicates, k.Unreadable, k.Conflicts} {
					x, _ := strconv.ParseUint(strings.Trim(string(n), `"`), 10, 64)
					got[strings.Trim(string(k.Kind), `"`)] += x
					if hostile := uint64(c.number); i == 2 && x > hostile || i == 3 && x > 0 {
						t.Errorf("%s: %s unreadable, %s conflict, and %d were to be", k.Kind, k.Unreadable, k.Conflicts, hostile)
					}
				}
			}
			for k, n := range of {
				if got[k] != n {
					return fmt.Sprintf("%v, the stream has %v, %v", got, of, err), false
				}
			}
			return "", true
		})
		c.ask(i)
	}
	for _, kind := range []string{"volume", "frequency", "heavy-hitters"} {
		if c.answers[kind] == 0 {
			t.Errorf("no answer of kind %s was held to anything", kind)
		}
	}
}

// stream reads all records, each of which must be there once, and returns how many there are by kind.
func (c *chaos) stream() (kinds map[string]uint64) {
	t := c.t
	var switches map[uint32]uint64
	awaitThat(t, "the stream to be read", func() (string, bool) {
		kinds, switches = map[string]uint64{}, map[uint32]uint64{}
		seen := map[[sha256.Size]byte]bool{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := eachMessage(ctx, c.js, func(m natsstream.Msg) error {
			h, _, rest, err := record.Decode(m.Data())
			if err != nil || len(rest) != 0 || m.Subject() != jetstream.Subject(&h) {
				return fmt.Errorf("a message on %s: %w", m.Subject(), err)
			}
			if sum := sha256.Sum256(m.Data()); seen[sum] {
				return fmt.Errorf("%v of switch %d is there twice", h.Kind, h.Switch)
			} else {
				seen[sum] = true
			}
			kinds[h.Kind.String()]++
			switches[h.Switch]++
			return nil
		})
		return fmt.Sprint(err), err == nil && len(kinds) > 0
	})
	for i := range c.switches {
		sent := c.before[i] + c.now[i]
		t.Logf("switch %d: %d records sent at least, %d in the stream", i+1, sent, switches[uint32(i+1)])
		if sent == 0 || switches[uint32(i+1)] < sent {
			t.Errorf("switch %d has sent %d records at least, and the stream has %d", i+1, sent, switches[uint32(i+1)])
		}
	}
	return kinds
}
