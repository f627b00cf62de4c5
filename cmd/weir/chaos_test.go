package main

import (
	"context"
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

// The environment of TestChaos: how long it goes on, and which faults there are.
const (
	chaosTime = "WEIR_CHAOS"
	chaosSeed = "WEIR_CHAOS_SEED"
)

// The sizes of TestChaos, and the memory that a process may have, in bytes: a collector's store and what its questions may take,
// some more for what all programs have.
const (
	chaosSwitches, chaosCollectors, chaosServers = 6, 2, 3

	chaosStore = 64 << 20
	chaosBound = 1 << 30
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
	sent       atomic.Int64 // packets of the host, at most
	faults     map[string]int
	number     int64
}

// TestChaos has random faults happen to a chain of six switches with two collectors and three servers for as long as
// WEIR_CHAOS says, and checks all along that counters add up, that answers are within what there was, and that no process has more
// memory than it may. At the end, all is well again, and each record that a switch counts as sent is with both collectors, once.
func TestChaos(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(chaosTime))
	if err != nil {
		t.Skipf("%s is no duration: see make chaos", chaosTime)
	}
	seed, _ := strconv.ParseUint(os.Getenv(chaosSeed), 10, 64)
	c := newChaos(t, seed)
	defer c.load()()
	began := time.Now()
	for round := 0; time.Since(began) < length; round++ {
		c.fault()
		c.check()
		if round%20 == 19 {
			t.Logf("%v: %d faults, %d packets sent at most", time.Since(began).Round(time.Second), round+1, c.sent.Load())
		}
	}
	c.heal()
	t.Logf("seed %d, %v: %v, %d packets", seed, time.Since(began).Round(time.Second), c.faults, c.sent.Load())
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{shipBed: newShipBed(t), t: t, faults: map[string]int{}}
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
			"[control]", fmt.Sprintf("[stages.oblivious]\nsize = 200\nepoch_bits = 27\n[telemetry]\ncollector = %s\nspool = %q\nspool_bytes = 4194304\n[control]", servers, spool))
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
			c.sent.Add(1)
			_ = socket.Send(testFrame(2, 1, n)) // fails while there is no switch
		}
	})
	return func() { close(end); sending.Wait() }
}

// fault has one thing go wrong for a moment.
func (c *chaos) fault() {
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
			c.volume(co)
		}},
	}
	f := all[c.random.IntN(len(all))]
	c.faults[f.name]++
	f.do()
	c.moment(time.Second)
}

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

// volume asks a collector what passed, and holds the answer to what was sent.
func (c *chaos) volume(i int) {
	var a struct{ Volume *query.Volume }
	err := c.get(i, http.MethodPost, "/weir.query.v1.QueryService/Ask", `{"question": {"kind": "volume"}}`, &a)
	if err != nil || a.Volume == nil {
		return // it is behind, or has no record yet
	}
	v, most := a.Volume, uint64(0)
	for _, s := range v.PerSwitch {
		most = max(most, s.Packets)
	}
	p := v.Packets
	if p.Low > p.Value || p.Value > p.High || p.High > float64(v.NaivePackets)+0.5 || p.Low > float64(c.sent.Load()) || most > uint64(c.sent.Load()) {
		c.t.Errorf("collector %d: %+v packets, of switches %d in sum and %d at most; %d were sent", i, p, v.NaivePackets, most, c.sent.Load())
	}
}

// check holds all processes that answer to their counters, answers and memory.
func (c *chaos) check() {
	t := c.t
	for i := range c.switches {
		status, stdout, _ := weir("ctl", "--socket", c.socket(fmt.Sprintf("s%d", i+1)), "show", "telemetry", "--json")
		var shown struct{ Records *api.Records }
		if status == 0 && json.Unmarshal([]byte(stdout), &shown) == nil && shown.Records != nil {
			checkRecords(t, shown.Records)
		}
		c.memory(c.switches[i].cmd.Process.Pid, fmt.Sprintf("switch %d", i+1))
	}
	for i := range c.collectors {
		c.volume(i)
		c.memory(c.collectors[i].cmd.Process.Pid, fmt.Sprintf("collector %d", i))
	}
	for i := range c.servers {
		c.memory(c.servers[i].cmd.Process.Pid, fmt.Sprintf("server %d", i))
	}
}

// memory holds a process to its bound.
func (c *chaos) memory(pid int, who string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return // it has just ended
	}
	for line := range strings.Lines(string(text)) {
		if kb, found := strings.CutPrefix(line, "VmRSS:"); found {
			n, _ := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if n<<10 > chaosBound {
				c.t.Errorf("%s has %d MiB, and may have %d", who, n>>10, chaosBound>>20)
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
	}
	stream := func() (messages uint64, of map[string]uint64) {
		of = map[string]uint64{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := eachMessage(ctx, c.js, func(m natsstream.Msg) error {
			h, _, rest, err := record.Decode(m.Data())
			if err != nil || len(rest) != 0 || m.Subject() != jetstream.Subject(&h) {
				return fmt.Errorf("a message on %s: %w", m.Subject(), err)
			}
			messages++
			of[h.Kind.String()]++
			return nil
		})
		if err != nil {
			return 0, nil
		}
		return messages, of
	}
	var messages uint64
	var of map[string]uint64
	awaitThat(t, "the stream to be read", func() (string, bool) {
		messages, of = stream()
		return fmt.Sprint(messages), messages > 0
	})
	for i := range c.collectors {
		type kind struct{ Kind, Records, Duplicates, Conflicts, Unreadable json.RawMessage }
		awaitThat(t, fmt.Sprintf("collector %d to have all", i), func() (string, bool) {
			var s struct{ Kinds []kind }
			err := c.get(i, http.MethodPost, "/weir.query.v1.QueryService/Collector", "{}", &s)
			got := map[string]uint64{}
			for _, k := range s.Kinds {
				for _, n := range []json.RawMessage{k.Records, k.Duplicates, k.Conflicts, k.Unreadable} {
					x, _ := strconv.ParseUint(strings.Trim(string(n), `"`), 10, 64)
					got[strings.Trim(string(k.Kind), `"`)] += x
				}
			}
			for k, n := range of {
				if got[k] != n {
					return fmt.Sprintf("%v, the stream has %v, %v", got, of, err), false
				}
			}
			return "", true
		})
		c.volume(i)
	}
}
