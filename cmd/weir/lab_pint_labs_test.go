package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// pintLab is a lab of two hosts and switches with the stage pint between them.
type pintLab struct {
	t       *testing.T
	name    string
	hosts   [2]*netns.Namespace
	seen    [2]*witness
	address [2][2]netip.Addr // by host, then IPv4 and IPv6
}

// newPintLab brings up a lab whose text has the name NAME.
func newPintLab(t *testing.T, text string, addresses [2][2]string) *pintLab {
	t.Helper()
	netnstest.Require(t)
	path := filepath.Join(t.TempDir(), "pint.toml")
	if err := os.WriteFile(path, []byte("name = \"pint\"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &pintLab{t: t, name: labUp(t, ownLab(t, path))}
	for i, host := range []string{"h1", "h2"} {
		l.hosts[i] = labHost(t, l.name, host)
		l.seen[i] = newWitness(t, l.hosts[i])
		for k, a := range addresses[i] {
			l.address[i][k] = netip.MustParseAddr(a)
		}
	}
	return l
}

var flatAddresses = [2][2]string{{"10.0.0.1", "fd00::1"}, {"10.0.0.2", "fd00::2"}}

// sleeping has workers sleep at once when there is nothing to do: several switches that look for packets take from each other the
// processors on which a packet goes on.
const sleeping = "[switch.config.workers]\npoll = \"interrupt\"\nbackground_nice = 0\n"

// chainOfFive is h1, five switches s1 to s5, and h2. The links between
// switches have room for the shim.
func chainOfFive(graph, extra string, bridged bool) string {
	var b strings.Builder
	for i := range 2 {
		fmt.Fprintf(&b, "[[host]]\nname = \"h%d\"\naddresses = [\"10.0.0.%d/24\", \"fd00::%d/64\"]\n", i+1, i+1, i+1)
	}
	for i := range 5 {
		edge := map[int]string{0: `"p0"`, 4: `"p1"`}[i]
		fmt.Fprintf(&b, "[[switch]]\nname = \"s%d\"\ngraph = %s\n%s[switch.config.dataplane]\naudit = true\nrx_ring = 8192\nfill_ring = 8192\n", i+1, graph, sleeping)
		fmt.Fprintf(&b, "[switch.config.stages.pint]\nedge = [%s]\n%s\n", edge, extra)
	}
	ends := []string{"h1"}
	for i := range 5 {
		ends = append(ends, fmt.Sprintf("s%d:p0", i+1), fmt.Sprintf("s%d:p1", i+1))
		if bridged && i == 2 {
			ends = append(ends, "b1:p0", "b1:p1")
		}
	}
	ends = append(ends, "h2")
	if bridged {
		b.WriteString("[[bridge]]\nname = \"b1\"\n")
	}
	for i := 0; i < len(ends); i += 2 {
		fmt.Fprintf(&b, "[[link]]\nendpoints = [%q, %q]\n", ends[i], ends[i+1])
		if i > 0 && i+2 < len(ends) {
			b.WriteString("mtu = 1600\n")
		}
	}
	return b.String()
}

// diamondOfRouters is h1, r1, r2, r3 or r6, r4, r5, h2. At first all goes by r3.
//
//	              r3 (10.0.23, 10.0.34)
//	h1 - r1 - r2 <                      > r4 - r5 - h2
//	              r6 (10.0.26, 10.0.46)
func diamondOfRouters(plan, identification string) string {
	var b strings.Builder
	host := func(name, net string) {
		fmt.Fprintf(&b, "[[host]]\nname = %q\naddresses = [\"10.0.%s.2/24\", \"fd00:%s::2/64\"]\ngateway = \"10.0.%s.1\"\ngateway6 = \"fd00:%s::1\"\n", name, net, net, net, net)
	}
	host("h1", "1")
	host("h2", "9")
	// A router has networks by port, its last number in them, and where the
	// networks of both hosts are.
	router := func(number int, edge string, networks []string, last []int, toH1, toH2 string) {
		fmt.Fprintf(&b, "[[switch]]\nname = \"r%d\"\ngraph = [\"parse\", \"l3\", \"pint\"]\n%s[switch.config.dataplane]\naudit = true\nrx_ring = 8192\nfill_ring = 8192\n", number, sleeping)
		fmt.Fprintf(&b, "[switch.config.stages.pint]\nedge = [%s]\nplan = %q\nidentification = %q\n", edge, plan, identification)
		for i, n := range networks {
			fmt.Fprintf(&b, "[[switch.config.stages.l3.interface]]\nport = \"p%d\"\naddresses = [\"10.0.%s.%d/24\", \"fd00:%s::%d/64\"]\n", i, n, last[i], n, last[i])
		}
		for net, via := range map[string]string{"1": toH1, "9": toH2} {
			if via != "" {
				fmt.Fprintf(&b, "[[switch.config.stages.l3.route]]\nprefix = \"10.0.%s.0/24\"\nvia = [\"10.0.%s\"]\n", net, via)
				fmt.Fprintf(&b, "[[switch.config.stages.l3.route]]\nprefix = \"fd00:%s::/64\"\nvia = [\"fd00:%s\"]\n", net, strings.Replace(via, ".", "::", 1))
			}
		}
	}
	router(1, `"p0"`, []string{"1", "12"}, []int{1, 1}, "", "12.2")
	router(2, "", []string{"12", "23", "26"}, []int{2, 2, 2}, "12.1", "23.3")
	router(3, "", []string{"23", "34"}, []int{3, 3}, "23.2", "34.4")
	router(4, "", []string{"34", "45", "46"}, []int{4, 4, 4}, "34.3", "45.5")
	router(5, `"p1"`, []string{"45", "9"}, []int{5, 1}, "45.4", "")
	router(6, "", []string{"26", "46"}, []int{6, 6}, "26.2", "46.4")
	for _, l := range [][2]string{{"h1", "r1:p0"}, {"r1:p1", "r2:p0"}, {"r2:p1", "r3:p0"}, {"r3:p1", "r4:p0"}, {"r4:p1", "r5:p0"}, {"r5:p1", "h2"}, {"r2:p2", "r6:p0"}, {"r6:p1", "r4:p2"}} {
		fmt.Fprintf(&b, "[[link]]\nendpoints = [%q, %q]\n", l[0], l[1])
		if l[0] != "h1" && l[1] != "h2" {
			b.WriteString("mtu = 1600\n") // room for shims
		}
	}
	return b.String()
}

// writePlan makes the plan of carrier ipid: the default one's queries in the
// identification.
func writePlan(t *testing.T, file string) {
	t.Helper()
	d := pintplan.Default()
	p, err := pintplan.New(pintplan.Config{ID: 2, Seed: 2, Bits: d.Bits, Carrier: pintplan.CarrierIPID, Queries: d.Queries})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Save(file); err != nil {
		t.Fatal(err)
	}
}

// restart ends a switch of the lab and starts it again with its configuration changed.
func (l *pintLab) restart(sw, old, new string) {
	l.t.Helper()
	status, out, errs := weir("lab", "status", l.name, "--json")
	if status != 0 {
		l.t.Fatal(errs)
	}
	var s lab.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		l.t.Fatal(err)
	}
	i := slices.IndexFunc(s.Nodes, func(n lab.NodeStatus) bool { return n.Name == sw })
	if i < 0 || s.Nodes[i].PID == 0 {
		l.t.Fatalf("no switch %s runs: %s", sw, out)
	}
	if err := syscall.Kill(s.Nodes[i].PID, syscall.SIGTERM); err != nil {
		l.t.Fatal(err)
	}
	config := filepath.Join(lab.Root, l.name, sw+".toml")
	text, err := os.ReadFile(config)
	if err != nil {
		l.t.Fatal(err)
	}
	changed := filepath.Join(l.t.TempDir(), sw+".toml")
	if err := os.WriteFile(changed, bytes.ReplaceAll(text, []byte(old), []byte(new)), 0o600); err != nil {
		l.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); syscall.Kill(s.Nodes[i].PID, 0) == nil && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	b := &testbed{ns: labHost(l.t, l.name, sw), dir: l.t.TempDir()}
	b.start(l.t, changed)
}
