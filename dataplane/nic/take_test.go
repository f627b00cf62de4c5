package nic

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// holdVariable names the interface that a child of the tests takes, until it is killed.
const holdVariable = "WEIR_TEST_NIC_HOLD"

func TestMain(m *testing.M) {
	netnstest.Isolate()
	if name := os.Getenv(holdVariable); name != "" {
		hold(name)
	}
	if name := os.Getenv(sysfsVariable); name != "" {
		readMounted(name)
	}
	m.Run()
}

// wanted are settings that veth has.
var wanted = []wish{
	{setting: "rx-vlan-hw-parse", value: Off},
	{setting: Channels, value: "rx 2 tx 4"},
	{setting: DeferRounds, value: "7"},
}

var (
	before  = map[Setting]string{"rx-vlan-hw-parse": On, Channels: "rx 4 tx 4", DeferRounds: "1"}
	while   = map[Setting]string{"rx-vlan-hw-parse": Off, Channels: "rx 2 tx 4", DeferRounds: "7"}
	changes = []Change{{"rx-vlan-hw-parse", On, Off}, {"channels", "rx 4 tx 4", "rx 2 tx 4"}, {"napi_defer_hard_irqs", "1", "7"}}
)

// grantAll takes an interface with the settings of wanted.
func grantAll(name string) (*Held, error) {
	h, err := Take(name, Config{})
	if err != nil {
		return nil, err
	}
	for i := range wanted {
		if err := h.grant(&wanted[i]); err != nil {
			return nil, errors.Join(err, h.Release())
		}
	}
	return h, nil
}

// hold is the child.
func hold(name string) {
	h, err := grantAll(name)
	if err == nil && len(h.Refused()) != 0 {
		err = fmt.Errorf("refused: %v", h.Refused())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	select {}
}

// sysfsVariable names the interface that a child of the tests reads by /sys.
const sysfsVariable = "WEIR_TEST_NIC_SYSFS"

// readMounted is that child: it prints a setting.
func readMounted(name string) {
	s, err := mountedSysfs(name)
	if err == nil {
		var value string
		if value, err = s.Read(string(DeferRounds)); err == nil {
			fmt.Println(value)
			os.Exit(0)
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// TestMountedSysfs: /sys is good if it shows the interface, and else is not.
func TestMountedSysfs(t *testing.T) {
	p := newPort(t)
	for command, want := range map[string]string{
		"exec /proc/self/exe": "/sys is that of another network namespace",
		"mount --make-rprivate / && mount -t sysfs sysfs /sys && exec /proc/self/exe": before[DeferRounds] + "\n",
	} {
		child := exec.Command("/bin/sh", "-c", strings.Replace(command, "/proc/self/exe", os.Args[0], 1))
		child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		child.Env = append(os.Environ(), sysfsVariable+"="+name)
		var out strings.Builder
		child.Stdout, child.Stderr = &out, &out
		if err := p.ns.Do(child.Start); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		if got := out.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// port is an interface in a namespace of its own, with the settings of before.
type port struct {
	t  *testing.T
	ns *netns.Namespace
}

const name = "p0"

func newPort(t *testing.T) *port {
	t.Helper()
	netnstest.Require(t)
	p := &port{t, netnstest.New(t, "wnic")}
	netnstest.NewHost(t, "wnic", netnstest.Port{Namespace: p.ns, Name: name, Queues: 4})
	p.write(DeferRounds, before[DeferRounds])
	p.expect(name, before)
	return p
}

// do runs f in the namespace of the port.
func (p *port) do(f func() error) {
	p.t.Helper()
	if err := p.ns.Do(f); err != nil {
		p.t.Fatal(err)
	}
}

// write sets a setting as the operator would.
func (p *port) write(s Setting, value string) {
	p.t.Helper()
	p.do(func() error {
		d, err := open(name)
		if err != nil {
			return err
		}
		return errors.Join(d.write(s, value), d.close())
	})
}

// expect compares settings of an interface.
func (p *port) expect(name string, want map[Setting]string) {
	p.t.Helper()
	p.do(func() error {
		d, err := open(name)
		if err != nil {
			return err
		}
		got := map[Setting]string{}
		for s := range want {
			if got[s], err = d.read(s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			p.t.Errorf("settings of %s (-want +got):\n%s", name, diff)
		}
		return d.close()
	})
}

// take takes the interface with the settings of wanted.
func (p *port) take() (h *Held) {
	p.t.Helper()
	p.do(func() (err error) {
		h, err = grantAll(name)
		return err
	})
	return h
}

// killed has another process take the interface, and kills it.
func (p *port) killed() {
	p.t.Helper()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), holdVariable+"="+name)
	out, err := child.StdoutPipe()
	if err == nil {
		err = p.ns.Do(child.Start)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_ = child.Process.Kill()
	_ = child.Wait()
	if line != "held\n" {
		p.t.Fatalf("the other process said %q", line)
	}
	p.expect(name, while)
}

// ledgers returns the files of the folder.
func ledgers(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func checkNoLedger(t *testing.T) {
	t.Helper()
	if files := ledgers(t); len(files) != 0 {
		t.Errorf("left: %v", files)
	}
}

// TestRelease: settings are put back, without those that the operator has changed since.
func TestRelease(t *testing.T) {
	p := newPort(t)
	h := p.take()
	p.expect(name, while)
	if diff := cmp.Diff(changes, h.Changed()); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	p.expect(name, before)
	checkNoLedger(t)

	h = p.take()
	p.write(DeferRounds, "9")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	p.expect(name, map[Setting]string{"rx-vlan-hw-parse": On, Channels: "rx 4 tx 4", DeferRounds: "9"})
	checkNoLedger(t)
}

// TestReleaseRenamed: an interface is known by its index.
func TestReleaseRenamed(t *testing.T) {
	p := newPort(t)
	h := p.take()
	p.do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, "p9"))
	})
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	p.expect("p9", before)
	checkNoLedger(t)
}

// TestReleaseGone: an interface that is gone leaves no file.
func TestReleaseGone(t *testing.T) {
	p := newPort(t)
	h := p.take()
	if err := p.ns.DeleteLink(name); err != nil {
		t.Fatal(err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	checkNoLedger(t)
}

// TestReleaseMoved: an interface that was moved to another namespace keeps its settings there, which the error names.
func TestReleaseMoved(t *testing.T) {
	p := newPort(t)
	away := netnstest.New(t, "wnic")
	h := p.take()
	if err := p.ns.MoveLink(name, away); err != nil {
		t.Fatal(err)
	}
	h.Moved()
	err := h.Release()
	for _, want := range []string{"moved to another network namespace", "rx-vlan-hw-parse = off (was on)", "channels = rx 2 tx 4 (was rx 4 tx 4)", "napi_defer_hard_irqs = 7 (was 1)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v does not say %q", err, want)
		}
	}
	elsewhere := *p
	elsewhere.ns = away
	elsewhere.expect(name, while)
	checkNoLedger(t)
}

// TestTakeAfterKill: the next switch puts back what it does not need, and keeps the originals of what it does.
func TestTakeAfterKill(t *testing.T) {
	p := newPort(t)
	p.killed()
	var h *Held
	p.do(func() (err error) {
		h, err = Take(name, Config{Poll: true})
		return err
	})
	p.expect(name, map[Setting]string{"rx-vlan-hw-parse": On, Channels: "rx 4 tx 4", DeferRounds: pollRounds, DeferFlush: pollFlush})
	want := []Change{{"napi_defer_hard_irqs", "1", pollRounds}, {"gro_flush_timeout", "0", pollFlush}}
	if diff := cmp.Diff(want, h.Changed()); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	p.expect(name, before)
	checkNoLedger(t)
}

// TestTakeTwice: of two switches on an interface, the second is refused and changes nothing.
func TestTakeTwice(t *testing.T) {
	p := newPort(t)
	h := p.take()
	p.do(func() error {
		if _, err := Take(name, Config{Poll: true}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d (weir) is changing the settings of p0", os.Getpid())) {
			t.Errorf("error %v", err)
		}
		all, err := Restore("")
		if len(all) != 1 || !strings.Contains(all[0].Note, "uses it") || all[0].Settings != nil {
			t.Errorf("restored %+v", all)
		}
		i, lookErr := Look(name)
		if lookErr == nil && (i.Left || !cmp.Equal(i.Held, changes)) {
			t.Errorf("held %v, left %t", i.Held, i.Left)
		}
		return errors.Join(err, lookErr)
	})
	p.expect(name, while)
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	p.expect(name, before)
}

// TestTakeBesideProgram: beside the XDP program of a switch that had nothing to change, nothing is changed.
func TestTakeBesideProgram(t *testing.T) {
	p := newPort(t)
	p.do(func() error {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.XDP, License: "MIT", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
		})
		if err != nil {
			return err
		}
		defer program.Close()
		i, err := Look(name)
		if err != nil {
			return err
		}
		attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: i.Index})
		if err != nil {
			return err
		}
		if _, err := Take(name, Config{Poll: true}); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("another XDP program is attached to p0: it is that of process %d (", os.Getpid())) {
			t.Errorf("error %v", err)
		}
		return attached.Close()
	})
	p.expect(name, before)
	checkNoLedger(t)
}

// TestAlternativeName: a long one is no name for requests to the driver.
func TestAlternativeName(t *testing.T) {
	p := newPort(t)
	p.do(func() error {
		const long = "an-alternative-name-of-p0"
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkAddAltName(l, long); err != nil {
			return err
		}
		i, err := Look(long)
		if err == nil && (i.Name != name || i.Driver != "veth" || i.Rounds != before[DeferRounds]) {
			t.Errorf("%+v", i)
		}
		return err
	})
}

// TestRestore: the command puts back what a killed switch left, in its namespace alone.
func TestRestore(t *testing.T) {
	p := newPort(t)
	p.killed()
	p.write(DeferRounds, "9")
	p.do(func() error {
		i, err := Look(name)
		if err == nil && !i.Left {
			t.Error("a killed switch's settings count as held")
		}
		return err
	})
	other := netnstest.New(t, "wnic")
	if err := other.Do(func() error {
		all, err := Restore("")
		if len(all) != 1 || !strings.Contains(all[0].Note, "in another network namespace") {
			t.Errorf("restored %+v", all)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	p.do(func() error {
		if all, err := Restore("p7"); len(all) != 0 || err != nil {
			t.Errorf("another interface: %+v, %v", all, err)
		}
		all, err := Restore(name)
		want := []Restored{{
			Interface: name,
			Settings:  []Change{{"channels", "rx 2 tx 4", "rx 4 tx 4"}, {"rx-vlan-hw-parse", Off, On}},
			Stayed:    []Change{{"napi_defer_hard_irqs", "7", "9"}},
		}}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return err
	})
	checkNoLedger(t)
}

// TestDamagedLedger: what cannot be read is set aside and told; what was not written to its end is ignored.
func TestDamagedLedger(t *testing.T) {
	p := newPort(t)
	p.killed()
	path := ledgers(t)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A switch that was killed while it wrote a line has not changed that setting.
	if err := os.WriteFile(path, append(text, `{"name":"rx-lro","was":"on","i`...), 0o644); err != nil {
		t.Fatal(err)
	}
	p.do(func() error {
		h, err := Take(name, Config{})
		if err != nil {
			return err
		}
		if h.Refused() != nil || h.Changed() != nil {
			t.Errorf("refused %v, changed %v", h.Refused(), h.Changed())
		}
		return h.Release()
	})
	p.expect(name, before)
	checkNoLedger(t)

	// The lines of the next switch take its place, and can be read when that one is killed.
	half := string(text) + `{"name":"rx-lro","was":"on, and more than the next line has","is":"` + strings.Repeat("off", 100)
	if err := os.WriteFile(path, []byte(half), 0o644); err != nil {
		t.Fatal(err)
	}
	p.killed()
	p.do(func() error {
		all, err := Restore(name)
		if len(all) != 1 || len(all[0].Settings) == 0 {
			t.Errorf("restored %+v", all)
		}
		return err
	})
	p.expect(name, before)
	checkNoLedger(t)

	if err := os.WriteFile(path, []byte(string(text)+"scribble\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := p.take()
	if r := h.Refused(); len(r) != 1 || r[0].Name != "ledger" || !strings.Contains(r[0].Why, "its line 5 is no change of a setting: it is "+path+".damaged now") {
		t.Errorf("refused %v", r)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	p.expect(name, before)
	if files := ledgers(t); len(files) != 1 || files[0] != path+damagedSuffix {
		t.Errorf("left: %v", files)
	}
	_ = os.Remove(path + damagedSuffix)
}

// FuzzLedger: any file is read or damaged, and what was read is one change for each setting.
func FuzzLedger(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "{}\n", `{"interface":"p0","index":5,"namespace":4026531840,"cookie":7,"process":1}` + "\n" + `{"name":"rx-lro","was":"on","is":"off"}` + "\n",
		`{"index":1}` + "\n" + `{"name":"a","was":"1","is":"2"}` + "\n" + `{"name":"a","was":"2","is":"1"}` + "\n" + `{"name":"b"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var l ledger
		if err := l.parse(strings.NewReader(text)); err != nil && !errors.Is(err, errDamaged) {
			t.Fatalf("error %v", err)
		}
		seen := map[string]bool{}
		for _, e := range l.entries {
			if e.Name == "" || seen[e.Name] {
				t.Errorf("entries %v", l.entries)
			}
			seen[e.Name] = true
		}
	})
}

// TestNote: the original of a setting is what it was before the first change, or what the operator has set since.
func TestNote(t *testing.T) {
	var l ledger
	for _, c := range []Change{{"a", "1", "2"}, {"b", "x", "y"}, {"a", "2", "3"}, {"b", "z", "y"}} {
		l.note(c)
	}
	if want := []Change{{"a", "1", "3"}, {"b", "z", "y"}}; !cmp.Equal(l.entries, want) {
		t.Errorf("entries %v, want %v", l.entries, want)
	}
}

// TestForeignLedger: a namespace may get the inode of one that is gone, and an interface there the index; the
// file of the old one says nothing about it.
func TestForeignLedger(t *testing.T) {
	p := newPort(t)
	p.killed()
	path := ledgers(t)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	first = strings.Replace(first, `"cookie":`, `"cookie":9`, 1)
	if err := os.WriteFile(path, []byte(first+"\n"+rest), 0o644); err != nil {
		t.Fatal(err)
	}
	p.do(func() error {
		h, err := Take(name, Config{})
		if err != nil {
			return err
		}
		return h.Release()
	})
	p.expect(name, while)
	checkNoLedger(t)
}

// TestRefused: a setting that the interface does not have is told with what follows, and nothing is left of it.
func TestRefused(t *testing.T) {
	p := newPort(t)
	p.do(func() error {
		h, err := Take(name, Config{})
		if err != nil {
			return err
		}
		if err := h.grant(&wish{setting: "rx-vlan-filter", value: On, lacking: "so be it"}); err != nil {
			return err
		}
		if err := h.grant(&wish{setting: Key, value: symmetricKey(40), lacking: "so be it"}); err != nil {
			return err
		}
		if err := h.grant(&wish{setting: Transform, value: symmetricXOR, required: true, lacking: "so be it"}); err == nil {
			t.Error("a setting was required, and missing is no error")
		}
		want := []Refusal{
			{"rx-vlan-filter", "the driver keeps it as it is: so be it"},
			{"rss-key", "the driver has no such setting: so be it"},
		}
		if diff := cmp.Diff(want, h.Refused()); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
		if h.Changed() != nil {
			t.Errorf("changed %v", h.Changed())
		}
		return h.Release()
	})
	checkNoLedger(t)
}

// TestLook compares with what another reader of the same says.
func TestLook(t *testing.T) {
	p := newPort(t)
	p.do(func() error {
		i, err := Look(name)
		if err != nil {
			return err
		}
		if i.Driver != "veth" || i.Queues != (Queues{4, 4, "rx 4 tx 4", false}) || !i.Up || i.Rounds != "1" || !i.XDP.Known || !i.XDP.Native || i.XDP.ZeroCopy {
			t.Errorf("%+v", i)
		}
		if _, err := Look("p7"); !errors.Is(err, ErrMissing) {
			t.Errorf("error %v", err)
		}
		all, err := LookAll()
		if len(all) != 1 || all[0].Name != name {
			t.Errorf("%d interfaces", len(all))
		}
		return err
	})
	for feature, o := range map[string]netns.Offload{"rx-vlan-hw-parse": netns.RxVLAN, "rx-gro": netns.GRO, "tx-vlan-hw-insert": netns.TxVLAN} {
		on, err := p.ns.Offload(name, o)
		if err != nil {
			t.Fatal(err)
		}
		p.expect(name, map[Setting]string{Setting(feature): onOff(on)})
	}
}
