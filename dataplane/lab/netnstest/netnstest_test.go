package netnstest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

func TestAbandoned(t *testing.T) {
	own := UniqueName("wl", "x")
	creator := strings.Split(own, "-")[1]
	for name, want := range map[string]bool{
		own:                   false, // we run
		"wl-1.zzzzzzzzz-1":    true,  // pid 1 began at another time
		"wl-4194399.1-1-h1":   true,  // beyond the largest pid
		"wl-h1":               false, // not our form
		"wl-12-3":             false,
		"wl-x.1-3":            false,
		"wl-1.??-3":           false,
		"wl--1.1-3":           false,
		"weir-4194399.1-1":    false, // another prefix
		"wl-" + creator + "-": false,
	} {
		if got := abandoned(name, "wl"); got != want {
			t.Errorf("abandoned(%q) = %t, want %t", name, got, want)
		}
	}
	if other := UniqueName("wl", "x"); other == own {
		t.Errorf("UniqueName gave %q twice", own)
	}
}

// TestSweepAfterKill makes a child that owns a namespace, kills it, and sweeps.
func TestSweepAfterKill(t *testing.T) {
	if os.Getenv("NETNSTEST_CHILD") == "1" {
		ns, err := netns.Create(UniqueName("wlsweep", ""))
		fmt.Println("namespace", ns.Name(), err)
		select {}
	}
	Require(t)
	child := exec.Command("/proc/self/exe", "-test.run=^TestSweepAfterKill$")
	child.Env = append(os.Environ(), "NETNSTEST_CHILD=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Kill()
	name := ""
	for lines := bufio.NewScanner(out); name == "" && lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "namespace" {
			name = fields[1]
		}
	}
	count := func() int {
		names, err := netns.List(name)
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if name == "" || count() != 1 {
		t.Fatalf("the child made no namespace (%q)", name)
	}
	Sweep(t, "wlsweep")
	if count() != 1 {
		t.Fatal("the sweep took a namespace whose creator runs")
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	Sweep(t, "wlsweep")
	if count() != 0 {
		t.Error("the sweep left a namespace whose creator is dead")
	}
}

// TestHere says whether tests in network namespaces run on this machine; make
// test shows its reason if they do not.
func TestHere(t *testing.T) { Require(t) }
