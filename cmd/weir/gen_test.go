package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic"
)

// What gen sends over a cable, sink accounts for to the packet, with each kind of both.
func TestGenToSink(t *testing.T) {
	a, b := cabled(t, "wb", netns.Veth{})
	if err := errors.Join(a.SetHostOffloads("a"), b.SetHostOffloads("b")); err != nil {
		t.Fatal(err)
	}
	workload := []string{"--size", "64,570", "--flows", "100", "--order", "zipf", "--exponent", "1.1", "--json"}
	for source, sink := range map[string]string{"live": "xdp", "xsk": "tc", "packet": "packet"} {
		t.Run(source+" to "+sink, func(t *testing.T) {
			var received bytes.Buffer
			output, said := io.Pipe()
			ended := make(chan int, 1)
			go func() {
				args := append([]string{"sink", "-i", "b", "--namespace", b.Name(), "--sink", sink, "--count", "3000", "--idle", "1m"}, workload...)
				ended <- run(args, strings.NewReader(""), &received, said)
			}()
			line := make([]byte, 256)
			if n, err := output.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "receiving on ") {
				t.Fatalf("sink said %q, %v", line[:n], err)
			}
			go io.Copy(io.Discard, output)
			args := append([]string{"gen", "-i", "a", "--namespace", a.Name(), "--source", source, "--rate", "20k", "--count", "3000"}, workload...)
			status, out, errs := weir(args...)
			if sinkStatus := <-ended; status != statusGood || sinkStatus != statusGood {
				t.Fatalf("gen: status %d: %s; sink: status %d", status, errs, sinkStatus)
			}
			var s genReport
			var r sinkReport
			if err := errors.Join(json.Unmarshal([]byte(out), &s), json.Unmarshal(received.Bytes(), &r)); err != nil {
				t.Fatal(err, out, received.String())
			}
			if s.Packets != 3000 || s.NextSeq != 3000 || r.Packets+s.Refused+r.Overflow != 3000 || r.Duplicates != 0 || r.Reordered != 0 {
				t.Errorf("sent %+v, received %+v", s, r)
			}
			if s.Refused+r.Overflow == 0 && r.Bytes != s.Bytes {
				t.Errorf("%d bytes sent, %d received", s.Bytes, r.Bytes)
			}
			if l := r.LatencyNs; l == nil || l.Min <= 0 || l.Min > l.P50 || l.P50 > l.P999 || l.P999 > l.Max {
				t.Errorf("latency %+v", l)
			}
		})
	}
}

// TestGenOverPlainVeth: a veth whose far end is a bridge's port takes no live frames: gen without --source sends in another way, so that all
// arrives, each size and from each core; --source live is refused. Where the far end is down nothing leaves, and the status says so.
func TestGenOverPlainVeth(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, "wb")
	ends := func(a, b string) error {
		return netns.AddVeth(netns.End{Namespace: ns, Name: a}, netns.End{Namespace: ns, Name: b}, netns.Veth{Queues: 2, MTU: 9000})
	}
	for _, err := range []error{
		ns.DisableIPv6(), ends("tx", "dut0"), ends("rx", "dut1"), ns.AddBridge("br", "dut0", "dut1"),
		ns.SetUp("tx"), ns.SetUp("rx"), ns.SetUp("dut0"), ns.SetUp("dut1"),
		ns.WaitUp("tx", time.Minute), ns.WaitUp("rx", time.Minute), ns.WaitUp("br", time.Minute),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ gen, source string }{
		{"", "af_xdp ("},
		{"--cores -1,-1", "2 times af_xdp ("},
		{"--cores -1,-1,-1", "1 times af_packet"}, // there are two queues
		{"--size 64,9000", "af_packet"},
		{"--size 4100", "af_xdp ("},
	} {
		both := ""
		if rest, ok := strings.CutPrefix(c.gen, "--size"); ok {
			both = "--size" + rest
		}
		output, said := io.Pipe()
		var received bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- run(strings.Fields("sink -i rx --sink packet --namespace "+ns.Name()+" --count 1000 --duration 1m --json "+both), strings.NewReader(""), &received, said)
			said.Close()
		}()
		line := make([]byte, 256)
		if n, err := output.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "receiving on ") {
			t.Fatalf("sink said %q, %v", line[:n], err)
		}
		go io.Copy(io.Discard, output)
		status, out, errs := weir(strings.Fields("gen -i tx --namespace " + ns.Name() + " --count 1000 --json " + c.gen)...)
		if sinkStatus := <-ended; status != statusGood || sinkStatus != statusGood {
			t.Fatalf("gen %s: status %d: %s; sink: status %d", c.gen, status, errs, sinkStatus)
		}
		var s genReport
		var r sinkReport
		if err := errors.Join(json.Unmarshal([]byte(out), &s), json.Unmarshal(received.Bytes(), &r)); err != nil {
			t.Fatal(err, out, received.String())
		}
		if s.Packets != 1000 || r.Packets+s.Refused+r.Overflow != 1000 || r.Packets == 0 || !strings.Contains(s.Source, c.source) {
			t.Errorf("gen %s: sent %+v, received %+v", c.gen, s, r)
		}
	}
	status, out, errs := weir(strings.Fields("gen -i tx --namespace " + ns.Name() + " --count 100 --source live")...)
	if status != statusUsage || !strings.Contains(errs, "takes no live frames") || !strings.Contains(errs, "use source xsk or packet") {
		t.Errorf("live frames: status %d: %s%s", status, out, errs)
	}
	if err := ns.SetMTU("tx", 8999); err != nil {
		t.Fatal(err)
	}
	where := " --tx-namespace " + ns.Name() + " --rx-namespace " + ns.Name()
	for _, args := range []string{"gen -i tx --namespace " + ns.Name() + " --size 64,9018", "bench forward --tx tx --rx rx --size 9018" + where} {
		const remedy = "carries, 9017 with its MTU of 8999: choose smaller ones, or raise the MTU of all interfaces on the way (ip link set dev tx mtu 9000)"
		if status, _, errs := weir(strings.Fields(args)...); status != statusUsage || !strings.Contains(errs, "--size: frames of 9018 bytes are longer than "+ns.Name()+"/tx "+remedy) {
			t.Errorf("%s: status %d: %s", args, status, errs)
		}
	}
	if err := errors.Join(ns.SetOffload("dut0", netns.GRO, true), ns.SetDown("dut0")); err != nil {
		t.Fatal(err)
	}
	status, out, errs = weir(strings.Fields("gen -i tx --namespace " + ns.Name() + " --count 100")...)
	if status != statusFailure || !strings.Contains(errs, "they did not leave "+ns.Name()+"/tx: see that the link is up at both ends") {
		t.Errorf("a far end that is down: status %d: %s%s", status, out, errs)
	}
}

// TestGenTemplates: templates, several cores and the latency stream from the command line, as the sink reports them.
func TestGenTemplates(t *testing.T) {
	a, b := cabled(t, "wb", netns.Veth{Queues: 2})
	if err := errors.Join(a.DisableIPv6(), b.DisableIPv6(), a.SetHostOffloads("a"), b.SetHostOffloads("b")); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ both, gen, sink string }{
		"TCP in VLAN and VXLAN over IPv6": {"--tcp --vlan 10 --vxlan 77 --src-net fd00:1::/112 --dst-net fd00:2::/112", "", "--count 2000 --idle 1m"},
		"MPLS":                            {"--mpls 16,17 --size 200", "--source packet", "--count 2000 --idle 1m"},
		"two cores":                       {"--flows 64", "--cores -1,-1 --source xsk", "--count 2000 --idle 1m"},
		"latency":                         {"--size 512", "--latency 500", "--latency --idle 10s"},
	} {
		t.Run(what, func(t *testing.T) {
			output, said := io.Pipe()
			var received bytes.Buffer
			ended := make(chan int, 1)
			go func() {
				args := strings.Fields("sink -i b --namespace " + b.Name() + " --json " + c.both + " " + c.sink)
				ended <- run(args, strings.NewReader(""), &received, said)
				said.Close()
			}()
			line := make([]byte, 256)
			if n, err := output.Read(line); err != nil || !strings.HasPrefix(string(line[:n]), "receiving on ") {
				t.Fatalf("sink said %q, %v", line[:n], err)
			}
			go io.Copy(io.Discard, output)
			status, out, errs := weir(strings.Fields("gen -i a --namespace " + a.Name() + " --rate 5k --count 2000 --json " + c.both + " " + c.gen)...)
			if sinkStatus := <-ended; status != statusGood || sinkStatus != statusGood {
				t.Fatalf("gen: status %d: %s; sink: status %d", status, errs, sinkStatus)
			}
			var s genReport
			var r sinkReport
			if err := errors.Join(json.Unmarshal([]byte(out), &s), json.Unmarshal(received.Bytes(), &r)); err != nil {
				t.Fatal(err, out, received.String())
			}
			if s.Packets != 2000 || r.Packets+s.Refused != 2000 || r.Duplicates+r.Reordered != 0 || r.LatencyNs == nil || r.LatencyNs.Min <= 0 {
				t.Errorf("sent %+v, received %+v", s, r)
			}
			if !strings.Contains(c.sink, "--latency") {
				return
			}
			if r.Stream == nil || s.Latency < 50 || r.Stream.Packets != s.Latency || r.Stream.Lost == nil || *r.Stream.Lost != 0 || r.Stream.LatencyNs == nil || r.Stream.LatencyNs.P50 <= 0 {
				t.Errorf("of the stream %d were sent, received %+v", s.Latency, r.Stream)
			}
		})
	}
}

func TestGenFlags(t *testing.T) {
	for args, want := range map[string]string{
		"gen -i x --rate fast":                                  "invalid argument \"fast\" for \"--rate\" flag",
		"gen":                                                   "--interface: name the network interface",
		"gen -i x --size 63":                                    "sizes: 63 is not between 64 and 9018 bytes",
		"gen -i x --order odd --src-mac zz":                     "--order: unknown order of flows",
		"sink -i weir-no-such":                                  "find interface weir-no-such",
		"gen -i lo --source none":                               "choose live, xsk or packet",
		"sink -i lo --sink none":                                "choose xdp, tc or packet",
		"gen -i lo --mpls 1 --vxlan 2":                          "VXLAN and MPLS: choose one of them",
		"gen -i lo --vlan 5000":                                 "--vlan: 5000 is no VLAN: choose 1 to 4094",
		"gen -i lo --vlan 70000":                                "--vlan: 70000 is no VLAN: choose 1 to 4094",
		"gen -i lo --mpls 2000000":                              "--mpls: 2000000 is no label: choose 0 to 1048575",
		"gen -i lo --vxlan 99999999":                            "--vxlan: 99999999 is no network: choose 0 to 16777215",
		"gen -i lo --vxlan 1 --vxlan-dst nowhere":               "--vxlan-dst: \"nowhere\" is no address",
		"gen -i lo --vlan 5 --source live":                      "use source xsk or packet",
		"gen -i lo --cores -1,-1 --flows 1":                     "--cores: 2 sources each send their part of the flows, and there is only 1 of these: raise --flows",
		"gen -i lo --cores 0,0":                                 "--cores: core 0 is named twice, where two sources would share it: name another, or -1 for any",
		"gen -i lo --namespace weir-no-such":                    "there is no network namespace \"weir-no-such\": create it (ip netns add weir-no-such) or correct the name",
		"sink -i lo --namespace weir-no-such":                   "there is no network namespace \"weir-no-such\": create it",
		"bench forward --tx lo --rx lo --rx-namespace weir-no":  "there is no network namespace \"weir-no\": create it",
		"gen -i lo --core 999":                                  "--core: this process may not work on core 999: choose one of ",
		"gen -i lo --core -5":                                   "--core: this process may not work on core -5: choose one of ",
		"gen -i lo --cores -1,4096":                             "--cores: this process may not work on core 4096: choose one of ",
		"sink -i lo --core 999":                                 "--core: this process may not work on core 999: choose one of ",
		"sink -i lo --idle -1s":                                 "--idle -1s: choose a length of time above 0, or leave it out",
		"sink -i lo --duration -1s":                             "--duration -1s: choose a length of time above 0, or leave it out",
		"gen -i lo --duration -1s":                              "--duration -1s: choose a length of time above 0, or leave it out",
		"gen -i lo --speed 3":                                   "--speed: it is of a capture: name its file with --capture",
		"gen -i lo --vxlan -7":                                  "--vxlan: -7 is no network: choose 0 to 16777215",
		"gen -i lo --rate 10Tbps":                               "is not between 0 and 10^9 packets per second",
		"gen -i lo --latency -1":                                "--latency: rate: -1 is not between 0 and 10^9",
		"bench forward --tx lo --rx x --source-core 999":        "--source-core: this process may not work on core 999: choose one of ",
		"gen -i lo --size capture":                              "--size: capture: name the file with --capture",
		"gen -i lo --capture weir-no-such":                      "--capture: open weir-no-such",
		"gen -i lo --speed 0 --capture ../../docs/example.pcap": "speed: 0 is not above 0",
		"bench forward --size 12":                               "size \"12\"",
		"bench forward --dut nothing --dut-core 999":            "there is no device \"nothing\"",
	} {
		if status, _, errs := weir(strings.Fields(args)...); status != statusUsage || !strings.Contains(errs, want) {
			t.Errorf("weir %s: status %d, %s, want %s", args, status, errs, want)
		}
	}
}

// TestSinkOfNothing: where nothing of the run arrives the status is 1 and a line says so; what is not known is null, and not 0.
func TestSinkOfNothing(t *testing.T) {
	a, b := cabled(t, "wsn", netns.Veth{})
	if err := errors.Join(a.DisableIPv6(), b.DisableIPv6()); err != nil {
		t.Fatal(err)
	}
	for args, lost := range map[string]string{"--idle 100ms": "unknown", "--duration 100ms": "unknown", "--duration 100ms --count 100": "100"} {
		line := "sink -i b --namespace " + b.Name() + " " + args
		status, stdout, stderr := weir(strings.Fields(line)...)
		if status != statusFailure || !strings.Contains(stderr, "nothing of this run arrived, and nothing else: ") || !strings.Contains(stdout, "\nlost "+lost+", ") || strings.Contains(stdout, "latency") {
			t.Errorf("%s: status %d: %s%s", args, status, stdout, stderr)
		}
		status, stdout, _ = weir(strings.Fields(line + " --json")...)
		known := strings.Replace(lost, "unknown", "null", 1)
		if status != statusFailure || !strings.Contains(stdout, `"lost": `+known+",") || !strings.Contains(stdout, `"latency_ns": null`) {
			t.Errorf("%s --json: status %d: %s", args, status, stdout)
		}
	}
	foreign := sinkReport{Foreign: 7}
	if err := foreign.nothing(); err == nil || !strings.Contains(err.Error(), "nothing of this run arrived (foreign packets: 7): ") {
		t.Errorf("foreign packets: %v", err)
	}
}

// TestSecondSink: of an interface that has an XDP program already the message says so, with the remedy.
func TestSecondSink(t *testing.T) {
	netnstest.Require(t)
	ns := netnstest.New(t, "wss")
	if err := errors.Join(netns.AddVeth(netns.End{Namespace: ns, Name: "a"}, netns.End{Namespace: ns, Name: "b"}, netns.Veth{}), ns.SetUp("a"), ns.SetUp("b")); err != nil {
		t.Fatal(err)
	}
	port, err := traffic.OpenPort(ns.Name(), "b", traffic.AnyCore)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Namespace.Close()
	first, err := traffic.NewSink("xdp", port, traffic.DefaultWorkload(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	status, _, stderr := weir("sink", "-i", "b", "--namespace", ns.Name(), "--duration", "100ms")
	if status != statusUsage || !strings.Contains(stderr, "another XDP program is there") || !strings.Contains(stderr, "(bpftool net show dev b), or count with --sink tc or packet") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// A capture is sent once by its own times, or its sizes are taken for packets that a sink accounts for.
func TestGenCapture(t *testing.T) {
	a, b := cabled(t, "wpf", netns.Veth{})
	if err := errors.Join(a.SetHostOffloads("a"), b.SetHostOffloads("b")); err != nil {
		t.Fatal(err)
	}
	const file = "../../docs/example.pcap"
	c, err := traffic.ReadCapture(file)
	if err != nil {
		t.Fatal(err)
	}
	for args, source := range map[string]string{"--speed 1000": "capture, af_packet", "--rate 5k": "capture, af_packet", "--rate max": "capture, af_packet", "--source xsk --speed 1000": "capture, af_xdp"} {
		status, out, errs := weir(strings.Fields("gen -i a --json --namespace " + a.Name() + " --capture " + file + " " + args)...)
		var s genReport
		if err := json.Unmarshal([]byte(out), &s); status != statusGood || err != nil {
			t.Fatalf("%s: status %d: %s, %v", args, status, errs, err)
		}
		if s.Packets != uint64(c.Packets()) || !strings.HasPrefix(s.Source, source) {
			t.Errorf("%s: %+v", args, s)
		}
	}
	status, out, errs := weir(strings.Fields("gen -i a --json --source packet --count 16 --namespace " + a.Name() + " --size capture --capture " + file)...)
	var s genReport
	if err := json.Unmarshal([]byte(out), &s); status != statusGood || err != nil {
		t.Fatalf("status %d: %s, %v", status, errs, err)
	}
	want := uint64(0)
	for _, size := range c.Sizes(64) {
		want += uint64(size - traffic.FCS)
	}
	if s.Bytes != want {
		t.Errorf("%d bytes, want %d", s.Bytes, want)
	}
}

// TestRateFlag: rates of packets, of bits, and of the interface's speed. 64 bytes with FCS take 84 on the wire, so that
// 10 Gbit/s are 14.88 million a second.
func TestRateFlag(t *testing.T) {
	for text, want := range map[string]float64{
		"1": 1, "250k": 250e3, "1.5M": 1.5e6, "1.5Mpps": 1.5e6, "max": 0, "1e5": 1e5,
		"512Mbps": 1e6, "512mbps": 1e6, "1gbps": 1e9 / 512, "1Gbit/s": 1e9 / 512, "100%": 10e9 / 672, "50%": 5e9 / 672,
	} {
		r := rateFlag{pps: 7}
		err := r.Set(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := r.packets(64, func() (uint64, error) { return 10e9, nil }); err != nil || got < want*0.999999 || got > want*1.000001 {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
		again := rateFlag{}
		if err := again.Set(r.String()); err != nil || again != r {
			t.Errorf("%q is written as %s, which reads as %+v, %v", text, &r, again, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "k", "1kk", "NaN", "0%", "101%", "fastbps"} {
		if r := (rateFlag{}); r.Set(text) == nil {
			t.Errorf("%q was taken", text)
		}
	}
	fast := rateFlag{bits: 100e9}
	_, err := fast.packets(64, func() (uint64, error) { return 10e9, nil })
	if err == nil || err.Error() != "--rate 100Gbps: it is more than the interface's speed, 10Gbps: write 10Gbps or 100% at most, or max" {
		t.Errorf("more than the interface's speed: %v", err)
	}
	if _, err := fast.packets(64, func() (uint64, error) { return 0, errors.New("unknown") }); err != nil {
		t.Errorf("of an unknown speed: %v", err)
	}
	r := rateFlag{share: 0.5}
	if _, err := r.packets(64, func() (uint64, error) { return 0, nil }); err == nil || !strings.HasPrefix(err.Error(), "--rate 50%: the interface does not say how fast it is") {
		t.Errorf("of an unknown speed: %v", err)
	}
}

// TestGenOnTerminal: rates of bits and of the interface's speed are those of packets, and a terminal has a line each second of what leaves and how
// much of the run is done.
func TestGenOnTerminal(t *testing.T) {
	a, _ := cabled(t, "wgt", netns.Veth{})
	near, far := openTerminal(t)
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(near) // a terminal without a far end is EIO
		said <- string(text)
	}()
	var out bytes.Buffer
	// Of 10 Mbit/s and 1250 bytes 1000 packets per second: they take two seconds or more.
	status := run(strings.Fields("gen -i a --json --rate 10Mbps --size 1250 --count 2500 --namespace "+a.Name()), strings.NewReader(""), &out, far)
	far.Close()
	text := <-said
	var s genReport
	if err := json.Unmarshal(out.Bytes(), &s); status != statusGood || err != nil || s.Offered != 1000 || s.Packets != 2500 {
		t.Errorf("status %d, %v: %s", status, err, &out)
	}
	for _, want := range []string{" %): ", " packets, ", " packets/s, ", "bit/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	// A veth says 10 Gbit/s; a frame of 1230 bytes takes 1250 on the wire.
	status, stdout, errs := weir(strings.Fields("gen -i a --json --rate 50% --size 1230 --count 100 --namespace " + a.Name())...)
	if err := json.Unmarshal([]byte(stdout), &s); status != statusGood || err != nil || s.Offered != 500_000 {
		t.Errorf("status %d, %v: %s%s", status, err, stdout, errs)
	}
}

// TestSinkOnTerminal: a terminal has a line each second of what arrives and how much of the run is done; else nothing is there but "receiving".
func TestSinkOnTerminal(t *testing.T) {
	a, b := cabled(t, "wst", netns.Veth{})
	near, far := openTerminal(t)
	receiving, said := make(chan struct{}), make(chan string, 1)
	go func() {
		var text strings.Builder
		buf := make([]byte, 4096)
		for begun := false; ; {
			n, err := near.Read(buf)
			text.Write(buf[:n])
			if !begun && strings.Contains(text.String(), "receiving on ") {
				begun = true
				close(receiving)
			}
			if err != nil { // a terminal without a far end is EIO
				said <- text.String()
				return
			}
		}
	}()
	status := make(chan int, 1)
	var out bytes.Buffer
	go func() {
		status <- run(strings.Fields("sink -i b --sink packet --json --count 2500 --namespace "+b.Name()), strings.NewReader(""), &out, far)
		far.Close()
	}()
	<-receiving
	if sent, _, errs := weir(strings.Fields("gen -i a --source packet --rate 1000 --count 2500 --namespace " + a.Name())...); sent != statusGood {
		t.Errorf("gen: status %d: %s", sent, errs)
	}
	var s sinkReport
	if got := <-status; got != statusGood || json.Unmarshal(out.Bytes(), &s) != nil || s.Packets != 2500 {
		t.Errorf("status %d: %s", got, &out)
	}
	text := <-said
	for _, want := range []string{" %): ", " packets, ", " packets/s, ", "bit/s, lost 0, foreign "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if _, _, errs := weir(strings.Fields("sink -i b --idle 1ms --namespace " + b.Name())...); strings.Contains(errs, "packets/s") {
		t.Errorf("without a terminal: %q", errs)
	}
}

// cabled are two namespaces with a cable between a of the one and b of the other, which are up.
func cabled(t *testing.T, prefix string, cable netns.Veth) (a, b *netns.Namespace) {
	t.Helper()
	netnstest.Require(t)
	a, b = netnstest.New(t, prefix), netnstest.New(t, prefix)
	err := netns.AddVeth(netns.End{Namespace: a, Name: "a"}, netns.End{Namespace: b, Name: "b"}, cable)
	if err := errors.Join(err, a.SetUp("a"), b.SetUp("b")); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// openTerminal makes a pseudo-terminal; what is written to far is read from near.
func openTerminal(t *testing.T) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	number, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

// TestGenFew: so few packets that they take no time have no rate; one at a rate has.
func TestGenFew(t *testing.T) {
	for _, c := range []struct {
		sent traffic.Sent
		want string
	}{
		{traffic.Sent{Packets: 32, Bytes: 1920, Elapsed: 40 * time.Microsecond, Rate: 800_000}, "sent 32 packets, 1920 bytes, in 0.000 s with x: too short a time for a rate\n"},
		{traffic.Sent{Packets: 1, Bytes: 60, Elapsed: 100 * time.Microsecond, Rate: 10_000, Offered: 10_000}, "sent 1 packet, 60 bytes, in 0.000 s with x: 10000 per second\n"},
		{traffic.Sent{Packets: 9000, Bytes: 540_000, Elapsed: 30 * time.Millisecond, Rate: 300_000}, "sent 9000 packets, 540000 bytes, in 0.030 s with x: 300000 per second\n"},
	} {
		var out strings.Builder
		if err := (&genOptions{}).printSent(&out, "x", c.sent, traffic.Sent{}); err != nil || out.String() != c.want {
			t.Errorf("%v: %q, want %q", err, &out, c.want)
		}
	}
}
