package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// pinging is a ping of the host's that goes on until it is ended.
type pinging struct {
	cmd    *exec.Cmd
	out    logged
	to     string
	before int // answers at the last takeover
}

// answer finds the number of an answer.
var answer = regexp.MustCompile(`icmp_seq=(\d+) ttl`)

func (p *pinging) answers() (numbers []int) {
	for _, m := range answer.FindAllStringSubmatch(p.out.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		numbers = append(numbers, n)
	}
	return numbers
}

// TestTakeoverHypervisors: the switches of the lab of two hypervisors, with bonds, tunnels, subinterfaces, tables of routes for each tenant, translated connections and all measurements in one graph, are taken over one
// after the other, each by a process that is taken over itself. Echo requests of tenants, by VXLAN, by their routers and by NAT, are all answered.
func TestTakeoverHypervisors(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: TestTakeoverBond, TestTakeoverTunnel and TestTakeoverConnections have the parts")
	}
	netnstest.Require(t)
	const workers = "[switch.config.workers]\n"
	name := labUp(t, smallLab(t, "hypervisors", workers, "[switch.config.control]\ntakeover = true\n\n"+workers))
	var pings []*pinging
	for _, c := range []struct{ from, to string }{
		{"red1", "10.1.0.2"},     // by VXLAN
		{"blue1", "10.2.1.3"},    // by the tenant's router, too
		{"red1", "198.51.100.1"}, // by NAT
		{"green2", "198.51.100.1"},
	} {
		ns := labHost(t, name, c.from)
		awaitThat(t, c.from+" to reach "+c.to, func() (string, bool) {
			cmd := exec.Command("ping", "-q", "-c", "1", "-W", "2", c.to)
			err := ns.Start(cmd)
			if err == nil {
				err = cmd.Wait()
			}
			return fmt.Sprint(err), err == nil
		})
		p := &pinging{cmd: exec.Command("ping", "-i", "0.02", c.to), to: c.from + " to " + c.to}
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
		must(t, ns.Start(p.cmd))
		t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
		pings = append(pings, p)
	}
	more := func(what string) {
		t.Helper()
		for _, p := range pings {
			p.before = len(p.answers())
		}
		for _, p := range pings {
			awaitThat(t, "answers "+what+", "+p.to, func() (string, bool) { return p.out.String(), len(p.answers()) >= p.before+20 })
		}
	}
	more("before")
	last := map[string]*process{}
	var blocked []time.Duration
	for range 2 {
		for _, sw := range []string{"hv1", "hv2", "edge", "leaf1", "leaf2"} {
			b := &testbed{ns: labHost(t, name, sw), dir: t.TempDir()}
			p := &process{cmd: weirCommand("switch", "-c", filepath.Join(lab.Root, name, sw+".toml"), "--takeover", "--report", "json")}
			b.startCommand(t, p)
			if old := last[sw]; old != nil {
				_ = old.cmd.Wait()
				if status := old.cmd.ProcessState.ExitCode(); status != 0 {
					t.Errorf("%s: the process before ended with %d: %s", sw, status, &old.stderr)
				}
				old.kept(t)
			}
			last[sw] = p
			blocked = append(blocked, p.blocked(t))
			more("after a takeover of " + sw)
		}
	}
	for _, p := range pings {
		must(t, p.cmd.Process.Signal(syscall.SIGINT))
		_ = p.cmd.Wait()
		numbers := p.answers()
		slices.Sort(numbers)
		for i, n := range numbers {
			if n != i+1 {
				t.Errorf("%s: of %d echo requests that were answered at last, no. %d was not, or twice", p.to, numbers[len(numbers)-1], i+1)
				break
			}
		}
	}
	for sw, p := range last {
		if status := p.stop(t); status != 0 {
			t.Errorf("%s ended with %d: %s", sw, status, &p.stderr)
		}
		p.kept(t)
	}
	slices.Sort(blocked)
	var answered []string
	for _, p := range pings {
		answered = append(answered, fmt.Sprintf("%s: %d", p.to, len(p.answers())))
	}
	fmt.Printf("%d takeovers of hypervisors and their neighbours, answers %s, none missed; blocked for %v to %v, median %v\n", len(blocked), strings.Join(answered, ", "), blocked[0], blocked[len(blocked)-1], blocked[len(blocked)/2])
}
