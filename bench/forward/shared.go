package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// sharedDevice is a kind of device under test between ports in shared memory.
type sharedDevice struct {
	name  string
	ports []Ports
	peer  func() Peer
	start func(r *sharedRig) (sharedRunning, error)
	// tunnelled: what guest 1 sends and gets is in a VXLAN tunnel.
	tunnelled bool
}

// sharedRunning is one that forwards.
type sharedRunning interface {
	running
	// look reads the device's own counters, while its peer is still there: DPDK's memif forgets them with it.
	look() error
	// counted returns what the device received and sent, when it has ended.
	counted() (received, sent uint64)
	pid() int
	// connects reports whether the device connects to its guests, which then listen.
	connects() bool
}

// sharedDevices in the order of the table.
var sharedDevices = []sharedDevice{
	{"testpmd", []Ports{PortsVhost, PortsMemif}, peerTestpmd, startSharedTestpmd, false},
	{"ovs", []Ports{PortsVhost}, peerOVSDPDK, func(r *sharedRig) (sharedRunning, error) {
		return startOVSDPDK(r, "in_port=1,actions=output:2", "in_port=2,actions=output:1")
	}, false},
	{"ovs_normal", []Ports{PortsVhost}, peerOVSDPDK, func(r *sharedRig) (sharedRunning, error) { return startOVSDPDK(r, "actions=NORMAL") }, false},
	{ovsConntrack, []Ports{PortsVhost}, peerOVSDPDK, func(r *sharedRig) (sharedRunning, error) { return startOVSDPDK(r, ovsTracked...) }, false},
	{ovsVXLAN, []Ports{PortsVhost}, peerOVSDPDK, startOVSTunnel, true},
	{"patch", []Ports{PortsVhost, PortsMemif}, nil, startSharedWeir("patch"), false},
	{"conntrack", []Ports{PortsVhost, PortsMemif}, nil, startSharedWeir("conntrack"), false},
	{"vxlan", []Ports{PortsVhost}, nil, startSharedWeir("vxlan"), true},
	{"l2", []Ports{PortsVhost, PortsMemif}, nil, startSharedWeir("l2"), false},
	{"all", []Ports{PortsVhost, PortsMemif}, nil, startSharedWeir("all"), false},
}

// ovsConntrack is Open vSwitch that follows connections, ovsVXLAN one that ends a tunnel.
const (
	ovsConntrack = "ovs_conntrack"
	ovsVXLAN     = "ovs_vxlan"
)

// ovsTracked are its flows: what is of no connection begins one, by both ports, and what is invalid is dropped.
var ovsTracked = []string{
	"table=0,ip,ct_state=-trk,actions=ct(table=1)",
	"table=1,in_port=1,ip,ct_state=+trk+new,actions=ct(commit),output:2",
	"table=1,in_port=2,ip,ct_state=+trk+new,actions=ct(commit),output:1",
	"table=1,in_port=1,ip,ct_state=+trk+est,actions=output:2",
	"table=1,in_port=2,ip,ct_state=+trk+est,actions=output:1",
}

// sharedRatios are the rows that compare: ours, the other one.
var sharedRatios = [][2]string{{"patch", "ovs"}, {"l2", "ovs_normal"}, {"conntrack", ovsConntrack}, {"vxlan", ovsVXLAN}, {"patch", "testpmd"}, {"all", "patch"}}

// ratioName is how a row calls the other one: the stage's name says already what it does.
func ratioName(other string) string {
	if other == ovsConntrack || other == ovsVXLAN {
		return "ovs"
	}
	return other
}

// chooseShared looks the devices of a configuration up.
func chooseShared(c *Config) (chosen []sharedDevice, err error) {
	var known []string
	for _, d := range sharedDevices {
		if !slices.Contains(d.ports, c.Ports) {
			continue
		}
		known = append(known, d.name)
		missing := d.peer != nil && !d.peer().Installed()
		switch {
		case slices.Contains(c.Devices, d.name) && missing:
			return nil, fmt.Errorf("%s is not installed: run weir bench peers --install, or leave it out", d.name)
		case slices.Contains(c.Devices, d.name), len(c.Devices) == 0 && !missing:
			chosen = append(chosen, d)
		}
	}
	for _, name := range c.Devices {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no device %q with %s ports: choose among %s", name, c.Ports, strings.Join(known, ", "))
		}
	}
	return chosen, hugePages()
}

// The huge pages of 2 MiB that a run takes: of the source, and of the device that takes most.
const (
	sourcePages = 128
	devicePages = 256
)

func hugePages() error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	free := 0
	if m := regexp.MustCompile(`HugePages_Free: +(\d+)`).FindSubmatch(text); m != nil {
		free, _ = strconv.Atoi(string(m[1]))
	}
	if want := sourcePages + devicePages; free < want {
		return fmt.Errorf("%d huge pages of 2 MiB are free, and %d are needed: sysctl vm.nr_hugepages=%d", free, want, 2*want)
	}
	return nil
}

// sharedRig is a device between two guests, which send to each other.
//
//	guest 0 ==== v0 device v1 ==== guest 1
type sharedRig struct {
	*rig
	config    *Config
	sizes     []int // bytes on the wire, without a tunnel
	tunnelled bool
	huge      string
}

// runShared is Run for ports in shared memory.
func runShared(ctx context.Context, c *Config) (*bench.Result, error) {
	chosen, err := chooseShared(c)
	if err != nil {
		return nil, err
	}
	var samples []Sample
	before, err := roundTrip(c.Cores.Source, c.Cores.Device)
	if err != nil {
		return nil, err
	}
	total := c.Rounds * len(c.Sizes) * len(chosen)
	err = onCore(c.Cores.Source, func() error {
		for round := range c.Rounds {
			for _, size := range c.Sizes {
				for i := range chosen {
					d := &chosen[(i+round)%len(chosen)]
					s := Sample{Round: round + 1, Device: d.name, Size: sizeLabel(size)}
					if size == sizeLarge && (d.name == "testpmd" || d.tunnelled) {
						continue // its vhost device has no such offloads, and tunnels take no large packets
					}
					c.Progress.Report(len(samples), total, fmt.Sprintf("round %d: %s, %s", s.Round, s.Device, s.Size))
					if err := visitShared(ctx, c, d, size, &s); err != nil {
						return fmt.Errorf("measure %s with %s: %w", d.name, s.Size, err)
					}
					samples = append(samples, s)
					if c.Raw != nil {
						c.Raw(s)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.Progress.Report(total, total, "")
	after, err := roundTrip(c.Cores.Source, c.Cores.Device)
	if err != nil {
		return nil, err
	}
	r := reportShared(c, samples)
	r.Add("cores.round_trip", "ns", (before+after)/2, fmt.Sprintf("a cache line from core %d, the source's, to core %d, the device's, and back; %.0f ns before and %.0f ns after",
		c.Cores.Source, c.Cores.Device, before, after), bench.Neither)
	return r, nil
}

// visitShared builds a rig, starts the device, measures, and takes all down.
func visitShared(ctx context.Context, c *Config, d *sharedDevice, size string, s *Sample) (err error) {
	list, err := sizes(size)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &sharedRig{rig: &rig{cores: c.Cores, dir: dir}, config: c, sizes: list, tunnelled: d.tunnelled, huge: filepath.Join(dir, "huge")}
	if r.mid, err = netns.Create(namespaceName("dut")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := os.Mkdir(r.huge, 0o700); err != nil {
		return err
	}
	if err := unix.Mount("none", r.huge, "hugetlbfs", 0, "pagesize=2M"); err != nil {
		return fmt.Errorf("mount huge pages: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Unmount(r.huge, unix.MNT_DETACH)) }()
	device, err := d.start(r)
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			_, stopErr := device.stop()
			err = errors.Join(err, stopErr)
		}
	}()
	sent, received, err := r.measureGuests(ctx, device, s)
	if err != nil {
		return err
	}
	stopped = true
	if s.Granted, err = device.stop(); err != nil {
		return err
	}
	return addUp(device, sent, received)
}

// untold is the count of a device that does not tell it.
const untold = ^uint64(0)

// addUp holds the counts of both ends against each other: what the source sent the device received, and what the
// device sent the sink received.
func addUp(device sharedRunning, sent, received uint64) error {
	in, out := device.counted()
	if in != sent || received > sent || out != untold && out != received {
		return fmt.Errorf("the counts do not add up: the source sent %d packets and the device received %d, it sent %d and the sink received %d",
			sent, in, out, received)
	}
	return nil
}

// socket is that of a port, 0 or 1.
func (r *sharedRig) socket(i int) string { return filepath.Join(r.dir, fmt.Sprintf("v%d", i)) }

// say gives a testpmd a command.
func say(c *child, command string) error {
	_, err := c.stdin.WriteString(command + "\n")
	return err
}

// count asks a testpmd for its counters of both ports.
func count(c *child) (rx, tx uint64, err error) {
	expression := regexp.MustCompile(`RX-packets: (\d+) +RX-missed: [\s\S]*?TX-packets: (\d+)`)
	blocks := func() [][][]byte {
		log, err := os.ReadFile(c.log)
		if err != nil {
			return nil
		}
		return expression.FindAllSubmatch(log, -1)
	}
	before := len(blocks())
	if err := say(c, "show port stats all"); err != nil {
		return 0, 0, err
	}
	if err := c.waitFor("showing its counters", startWait, func() bool { return len(blocks()) >= before+2 }); err != nil {
		return 0, 0, err
	}
	for _, b := range blocks()[before : before+2] {
		r, _ := strconv.ParseUint(string(b[1]), 10, 64)
		t, _ := strconv.ParseUint(string(b[2]), 10, 64)
		rx, tx = rx+r, tx+t
	}
	return rx, tx, nil
}

// processTime is the processor time of a process; 0 if it is gone.
func processTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // utime, stime (proc(5))
		n, _ := strconv.Atoi(f)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ
}

// sharedTestpmd is DPDK's forwarder between vhost or memif devices.
type sharedTestpmd struct {
	*child
	received, sent uint64
}

func startSharedTestpmd(r *sharedRig) (sharedRunning, error) {
	var devices []string
	for i := range 2 {
		if r.config.Ports == PortsVhost {
			devices = append(devices, fmt.Sprintf("net_vhost%d,iface=%s", i, r.socket(i)))
		} else {
			devices = append(devices, fmt.Sprintf("net_memif%d,role=server,id=0,socket=%s,socket-abstract=no", i, r.socket(i)))
		}
	}
	arguments := []string{"-oL", "dpdk-testpmd", "--lcores", fmt.Sprintf("0@%d,1@%d", r.cores.Source, r.cores.Device), "--no-pci", "--no-telemetry",
		"--single-file-segments", "-m", strconv.Itoa(2 * devicePages), "--huge-dir", r.huge, "--file-prefix", "dut"}
	for _, d := range devices {
		arguments = append(arguments, "--vdev", d)
	}
	arguments = append(arguments, "--", "-i", "--nb-cores=1", "--no-mlockall", "--total-num-mbufs=16384", "--forward-mode=io", "--auto-start")
	cmd := exec.Command("stdbuf", arguments...)
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+r.dir) // for DPDK's own files
	c, err := startChild(r.mid, onCores(r.cores.Source, r.cores.Device), r.dir, cmd)
	if err != nil {
		return nil, err
	}
	if err := c.waitFor("its prompt", startWait, func() bool { return c.printed("testpmd> ") }); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return &sharedTestpmd{child: c}, nil
}

func (d *sharedTestpmd) connects() bool { return false }

func (d *sharedTestpmd) pid() int { return d.cmd.Process.Pid }

func (d *sharedTestpmd) look() (err error) {
	d.received, d.sent, err = count(d.child)
	return err
}

func (d *sharedTestpmd) counted() (received, sent uint64) { return d.received, d.sent }

func (d *sharedTestpmd) stop() (string, error) { return "poll mode, io", d.child.stop() }

// sharedConfig is the switch's configuration.
var sharedConfig = template.Must(template.New("shared").Parse(`
[switch]
name = "bench"
id = 1
graph = [{{if .All}}"parse", "oblivious", "lds_ingress", "patch", "pint", "disketch", "lds_egress"{{else if eq .Stage "conntrack"}}"parse", "conntrack", "patch"{{else if eq .Stage "vxlan"}}"parse", "tunnel", "patch", "encap"{{else}}"parse", "{{.Stage}}"{{end}}]

[workers]
count = 1
cores = [{{.Core}}]
poll = "{{.Poll}}"

[control]
socket = "{{.Dir}}/weir.sock"
{{range .Ports}}
[[port]]
name = "{{.Name}}"
driver = "{{$.Driver}}"
socket = "{{.Socket}}"
{{end}}
{{if eq .Stage "vxlan"}}[[port]]
name = "vx"
driver = "tunnel"

[stages.patch]
pairs = [["p0", "vx"]]

[[stages.tunnel.underlay]]
port = "p1"
addresses = ["{{.Near}}/24"]
mac = "{{.MAC}}"

[[stages.tunnel.tunnel]]
port = "vx"
kind = "vxlan"
vni = {{.VNI}}
remotes = ["{{.Far}}"]
{{else if ne .Stage "l2"}}[stages.patch]
pairs = [["p0", "p1"]]
{{end}}{{if .All}}
[telemetry]
spool = "{{.Dir}}/spool"

[stages.lds_ingress]
ports = ["p0"]

[stages.lds_egress]
ports = ["p1"]

[stages.pint]
plan = "{{.Dir}}/plan.toml"
switches = [1]
edge = ["p0", "p1"]
{{end}}`))

type sharedWeir struct {
	weirDevice
	received, sent uint64
}

func startSharedWeir(stage string) func(*sharedRig) (sharedRunning, error) {
	return func(r *sharedRig) (sharedRunning, error) {
		type end struct{ Name, Socket string }
		var text strings.Builder
		err := sharedConfig.Execute(&text, map[string]any{
			"Stage": stage, "All": stage == "all", "Core": r.cores.Device, "Poll": r.config.Poll, "Dir": r.dir,
			"Near": vxlanNear, "Far": vxlanFar, "MAC": net.HardwareAddr(vxlanNearMAC[:]), "VNI": vxlanVNI,
			"Driver": string(r.config.Ports), "Ports": []end{{portA, r.socket(0)}, {portB, r.socket(1)}},
		})
		config := filepath.Join(r.dir, "weir.toml")
		if err = errors.Join(err, os.WriteFile(config, []byte(text.String()), 0o600)); err != nil {
			return nil, err
		}
		if stage == "all" {
			if err := writePlan(r.config.Weir, r.dir); err != nil {
				return nil, err
			}
		}
		d, err := runWeir(r.rig, deviceOptions{weir: r.config.Weir}, config, onCores(r.cores.Device))
		if err != nil {
			return nil, err
		}
		return &sharedWeir{weirDevice: d.(weirDevice)}, nil
	}
}

func (d *sharedWeir) connects() bool { return false }

func (d *sharedWeir) pid() int { return d.cmd.Process.Pid }

// look has nothing to do: the switch reports when it ends.
func (d *sharedWeir) look() error { return nil }

func (d *sharedWeir) counted() (received, sent uint64) { return d.received, d.sent }

// stop reads what the ports counted, too.
func (d *sharedWeir) stop() (string, error) {
	granted, err := d.weirDevice.stop()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(d.report)
	if err != nil {
		return "", err
	}
	var report struct {
		Ports []struct {
			Name        string `json:"name"`
			Received    uint64 `json:"received"`
			Transmitted uint64 `json:"transmitted"`
		} `json:"ports"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return "", err
	}
	for _, p := range report.Ports {
		if p.Name == portA || p.Name == portB { // a tunnel's port has what came out of it once more
			d.received += p.Received
			d.sent += p.Transmitted
		}
	}
	return granted, nil
}

// ovsDPDK is an Open vSwitch of our own with DPDK's ports.
type ovsDPDK struct {
	ovsDevice
	received uint64
	client   bool // its ports connect: those that listen have no offloads
}

// ovsDPDKPath is the program in Debian's package.
const ovsDPDKPath = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"

func startOVSDPDK(r *sharedRig, flows ...string) (_ sharedRunning, err error) {
	d := &ovsDPDK{ovsDevice: ovsDevice{dir: r.dir, core: r.cores.Device}, client: r.sizes[0] > maxWire}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.end())
		}
	}()
	if _, err := d.run("ovsdb-tool", "create", d.path("conf.db"), ovsSchema); err != nil {
		return nil, err
	}
	d.database, err = startChild(r.mid, onCores(r.cores.Source), d.dir, d.command("ovsdb-server", d.path("conf.db"),
		"--remote=punix:"+d.path("db.sock"), "--unixctl="+d.path("db.ctl"), "--no-chdir"))
	if err != nil {
		return nil, err
	}
	if err := d.database.waitFor("opening its socket", startWait, exists(d.path("db.sock"))); err != nil {
		return nil, err
	}
	if _, err := d.vsctl("--no-wait", "--", "init", "--", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true",
		fmt.Sprintf("other_config:pmd-cpu-mask=%#x", 1<<d.core), fmt.Sprintf("other_config:dpdk-lcore-mask=%#x", 1<<r.cores.Source),
		fmt.Sprintf("other_config:dpdk-alloc-mem=%d", 2*devicePages), "other_config:dpdk-hugepage-dir="+r.huge,
		`other_config:dpdk-extra="--no-pci --file-prefix=dut --no-telemetry"`,
		fmt.Sprintf("other_config:userspace-tso-enable=%v", r.sizes[0] > maxWire)); err != nil {
		return nil, err
	}
	cmd := d.command(ovsDPDKPath, "unix:"+d.path("db.sock"), "--unixctl="+d.path("vswitchd.ctl"), "--no-chdir")
	cmd.Env = append(cmd.Env, "RUNTIME_DIRECTORY="+r.dir)
	if d.daemon, err = startChild(r.mid, onCores(r.cores.Source, d.core), d.dir, cmd); err != nil {
		return nil, err
	}
	if err := d.daemon.waitFor("opening its socket", startWait, exists(d.path("vswitchd.ctl"))); err != nil {
		return nil, err
	}
	add := []string{"--", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail-mode=secure"}
	for i := range 2 {
		name := filepath.Base(r.socket(i))
		kind := []string{"type=dpdkvhostuser"}
		if d.client {
			kind = []string{"type=dpdkvhostuserclient", "options:vhost-server-path=" + r.socket(i)}
		}
		add = append(add, "--", "add-port", "br0", name, "--", "set", "interface", name, fmt.Sprintf("ofport_request=%d", i+1))
		add = append(add, kind...)
	}
	if _, err := d.run("ovs-vsctl", append([]string{"--db=unix:" + d.path("db.sock"), "--timeout=60"}, add...)...); err != nil {
		return nil, errors.Join(err, errors.New(d.daemon.tail()))
	}
	for _, flow := range flows {
		if _, err := d.run("ovs-ofctl", "add-flow", "unix:"+d.path("br0.mgmt"), flow); err != nil {
			return nil, err
		}
	}
	if d.client {
		return d, nil
	}
	return d, d.daemon.waitFor("opening its ports", startWait, exists(r.socket(1)))
}

func (d *ovsDPDK) connects() bool { return d.client }

func (d *ovsDPDK) pid() int { return d.daemon.cmd.Process.Pid }

func (d *ovsDPDK) counted() (received, sent uint64) { return d.received, untold }

// look reads the counter of the PMD thread: what the kernel sends by a bridge's own interface is the main thread's. Its ports of this kind do not tell what they sent.
func (d *ovsDPDK) look() error {
	text, err := d.run("ovs-appctl", "-t", d.path("vswitchd.ctl"), "dpif-netdev/pmd-stats-show")
	for _, m := range regexp.MustCompile(`(?m)^pmd thread .*\n +packets received: (\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseUint(m[1], 10, 64)
		d.received += n
	}
	return err
}

func (d *ovsDPDK) stop() (string, error) {
	return "poll mode", errors.Join(d.daemon.stop(), d.database.stop())
}

func peerOVSDPDK() Peer {
	p := Peer{Device: "ovs, ovs_normal, ovs_conntrack, ovs_vxlan (vhost)", Name: "Open vSwitch with DPDK", Package: "openvswitch-switch-dpdk"}
	if _, err := os.Stat(ovsDPDKPath); err != nil {
		return p
	}
	p.Path = ovsDPDKPath
	if out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", p.Package).Output(); err == nil {
		p.Version = strings.TrimSpace(string(out))
	}
	return p
}

// cpuAtHalf is processor time at half of the NDR; a worker that polls takes all of its core at any rate.
var cpuAtHalf = figure{"cpu_at_half_ndr", "ns/packet", bench.Lower, true, func(s *Sample) float64 { return s.CPU.Total }}

// reportShared turns samples into rows; the first word of each is the kind of ports.
func reportShared(c *Config, samples []Sample) *bench.Result {
	r := &bench.Result{Name: Name, Seed: c.Seed, Machine: bench.ThisMachine()}
	cpu := figure{"cpu", "ns/packet", bench.Lower, false, func(s *Sample) float64 { return s.CPU.User }}
	offered := figure{"mrr_offered", "pps", bench.Neither, false, func(s *Sample) float64 { return s.Offered }}
	for _, size := range c.Sizes {
		group := collect(samples, sizeLabel(size))
		for _, d := range sharedDevices {
			s := group[d.name]
			if len(s) == 0 {
				continue
			}
			figures := []figure{mrr, offered, cpu}
			if c.Searches {
				figures = append(figures, pdr, ndr, cpuAtHalf)
			}
			for _, f := range figures {
				r.Add(fmt.Sprintf("%s.%s.%s.%s", c.Ports, d.name, s[0].Size, f.name), f.unit, median(valuesOf(f, s)), s[0].Granted+", both ways", f.better)
			}
		}
		for _, pair := range sharedRatios {
			own, other := group[pair[0]], group[pair[1]]
			if len(own) == 0 || len(other) == 0 {
				continue
			}
			before := len(r.Rows)
			addRatio(r, "mrr", mrr, own, other, ratioName(pair[1]))
			if c.Searches {
				addRatio(r, "pdr", pdr, own, other, ratioName(pair[1]))
				addRatio(r, "ndr", ndr, own, other, ratioName(pair[1]))
				addRatio(r, "cpu_at_half_ndr", cpuAtHalf, own, other, ratioName(pair[1]))
			}
			for i := before; i < len(r.Rows); i++ {
				r.Rows[i].Metric = string(c.Ports) + "." + r.Rows[i].Metric
			}
		}
	}
	return r
}
