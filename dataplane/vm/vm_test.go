package vm

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

func TestMain(m *testing.M) {
	netnstest.Isolate()
	m.Run()
}

// requireKernel skips the test where no virtual machine can run, and fails it with WEIR_REQUIRE_VM=1.
func requireKernel(t *testing.T) *Kernel {
	t.Helper()
	netnstest.Require(t)
	k, err := FindKernel()
	if err != nil && os.Getenv("WEIR_REQUIRE_VM") == "1" {
		t.Fatalf("WEIR_REQUIRE_VM=1, but no virtual machine can run: %v", err)
	}
	if err != nil {
		t.Skipf("no virtual machine can run: %v", err)
	}
	return k
}

// build builds the static programs of a guest.
func build(t *testing.T) Programs {
	t.Helper()
	p := Programs{Weir: filepath.Join(t.TempDir(), "weir"), Guest: filepath.Join(t.TempDir(), "guest")}
	for path, pkg := range map[string]string{p.Weir: "cmd/weir", p.Guest: "dataplane/vm/guest"} {
		cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", path, "github.com/weirswitch/weir/"+pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", pkg, err, out)
		}
	}
	return p
}

// selection is what of the matrix a test run does: all of it with WEIR_VM=full, else two drivers with little traffic. WEIR_VM may
// name a driver, "guests" (see TestGuests), or a driver, a row and tests with colons between them: empty is any row, and tests are
// separated by commas, behind "!" those that are left out. WEIR_VM_SMALL=1 has little traffic there, too.
func selection(all []Driver) []Driver {
	name, rest, _ := strings.Cut(os.Getenv("WEIR_VM"), ":")
	row, tests, _ := strings.Cut(rest, ":")
	names, others := strings.CutPrefix(tests, "!")
	left := func(t Test) bool {
		return tests != "" && slices.Contains(strings.Split(names, ","), string(t)) == others
	}
	size := Row{Bytes: 64 << 20, Packets: 10_000, Flaps: 1000, Resets: 100, Reloads: 2}
	if name == "" || os.Getenv("WEIR_VM_SMALL") == "1" {
		size = Row{Bytes: 8 << 20, Packets: 2000, Flaps: 20, Resets: 6}
	}
	// By driver and row, the tests that are left to the full matrix. Each test is in one row at least.
	few := map[string]map[string][]Test{
		"virtio_net": {"bridge": {}, "copy": {LDS}, "zero-copy": {VLAN, Tunnels, L2, L3, Overlay, IRB, PINT, LDS}},
		"igb":        {"zero-copy": {Tunnels, L2, L3, Overlay, IRB, PINT}},
	}
	if name == "" {
		all = slices.DeleteFunc(all, func(d Driver) bool { return few[d.Name] == nil })
	} else if name != "full" {
		all = slices.DeleteFunc(all, func(d Driver) bool { return d.Name != name })
	}
	for i := range all {
		rows := &all[i].Rows
		*rows = slices.DeleteFunc(*rows, func(r Row) bool {
			return row != "" && r.Name != row || name == "" && few[all[i].Name][r.Name] == nil
		})
		for j := range *rows {
			r := &(*rows)[j]
			r.Tests = slices.DeleteFunc(slices.Clone(r.Tests), func(t Test) bool {
				return left(t) || name == "" && slices.Contains(few[all[i].Name][r.Name], t)
			})
			r.Refuses = slices.DeleteFunc(slices.Clone(r.Refuses), func(t Test) bool { return !slices.Contains(r.Tests, t) })
			r.Bytes, r.Packets, r.Flaps, r.Resets, r.Reloads = size.Bytes, size.Packets, size.Flaps, size.Resets, size.Reloads
			if r.Copy != "zero-copy" || r.Workers != 0 {
				// There a driver has no frames of ours, or the same as with one queue.
				r.Flaps, r.Resets = min(r.Flaps, fewFlaps), min(r.Resets, fewResets)
			}
		}
	}
	return all
}

// The faults of rows other than zero-copy, in the full matrix.
const fewFlaps, fewResets = 100, 20

// TestDrivers is the acceptance on the drivers of NICs: a table of driver, mode and test, of which all cells are ok, or
// refused where the driver is known not to do it.
func TestDrivers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes: make vm-some, or vm-test")
	}
	if os.Getenv("WEIR_VM") == guestsName {
		t.Skip("WEIR_VM selects the guests")
	}
	kernel := requireKernel(t)
	programs := build(t)
	var table Table
	t.Run("driver", func(t *testing.T) {
		for _, d := range selection(Drivers()) {
			t.Run(d.Name, func(t *testing.T) {
				if os.Getenv("WEIR_VM") == "" {
					t.Parallel() // an emulated machine often waits, and uses little more than one core
				}
				testDriver(t, kernel, programs, d, &table)
			})
		}
	})
	var text bytes.Buffer
	if err := table.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Logf("Linux %s\n%s", kernel.Version, &text)
}

// machineWait is far more than a machine needs for all of its rows.
const machineWait = 3 * time.Hour

func testDriver(t *testing.T, kernel *Kernel, programs Programs, d Driver, table *Table) {
	m := d.Machine(d.Rows)
	m.Kernel, m.Programs, m.Dir = kernel, programs, t.TempDir()
	m.Plan.Logs = os.Getenv("WEIR_VM_LOGS") == "1"
	if d.Pairs > 1 {
		makeCables(t, d.Pairs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), machineWait)
	defer cancel()
	want, refuses := 0, map[string][]Test{}
	for _, row := range d.Rows {
		want += len(row.Tests)
		refuses[row.Name] = row.Refuses
	}
	err := m.Run(ctx, func(r Result) {
		want--
		t.Logf("%s: %s: %s in %.0f s %s", r.Row, r.Test, r.Outcome, r.Seconds, r.Text)
		table.Add(d.Name, r)
		if r.Outcome == Failed || (r.Outcome == Refused) != slices.Contains(refuses[r.Row], r.Test) {
			t.Errorf("%s: %s: %s, refusals are right for %v: %s", r.Row, r.Test, r.Outcome, refuses[r.Row], r.Text)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if want != 0 {
		t.Errorf("%d results are missing", want)
	}
	if t.Failed() || m.Plan.Logs {
		for _, name := range []string{m.ConsoleFile(), m.MessagesFile()} {
			text, _ := os.ReadFile(name)
			t.Logf("%s:\n%s", name, text)
		}
	}
}

// makeCables makes the cables of multi-queue NICs: tap interfaces, joined in pairs by bridges.
func makeCables(t *testing.T, pairs int) {
	here, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(here.Close)
	if err := here.DisableIPv6(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < NICs; i += 2 {
		ends := []string{tapName(i), tapName(i + 1)}
		for _, name := range ends {
			attributes := netlink.NewLinkAttrs()
			attributes.Name, attributes.TxQLen = name, tapQueue
			tap := &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP, Queues: pairs,
				Flags: netlink.TUNTAP_MULTI_QUEUE_DEFAULTS | netlink.TUNTAP_VNET_HDR}
			if err := here.Netlink().LinkAdd(tap); err != nil {
				t.Fatalf("make %s: %v", name, err)
			}
			for _, f := range tap.Fds {
				f.Close()
			}
			t.Cleanup(func() { _ = here.DeleteLink(name) })
			if err := here.SetMTU(name, tapMTU); err != nil {
				t.Fatal(err)
			}
			if err := here.SetUp(name); err != nil {
				t.Fatal(err)
			}
		}
		bridge := "cable" + ends[0]
		if err := here.AddBridge(bridge, ends...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = here.DeleteLink(bridge) })
	}
}

const (
	tapQueue = 10_000 // packets: an emulated processor takes them late
	tapMTU   = 9100   // bytes: above that of any guest
)
