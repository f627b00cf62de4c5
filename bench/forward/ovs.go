package forward

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// ovsDevice is an Open vSwitch of our own: its files, its sockets and its two daemons are in the rig's
// directory and namespace, and a system's Open vSwitch is not touched.
type ovsDevice struct {
	dir      string
	core     int
	database *child
	daemon   *child
}

// The schema of the database, where Debian's package has it.
const ovsSchema = "/usr/share/openvswitch/vswitch.ovsschema"

func startOVS(r *rig, _ deviceOptions) (running, error) {
	return newOVS(r, "in_port=1,actions=output:2", "in_port=2,actions=output:1")
}

func startOVSNormal(r *rig, _ deviceOptions) (running, error) { return newOVS(r, "actions=NORMAL") }

func newOVS(r *rig, flows ...string) (_ running, err error) {
	d := &ovsDevice{dir: r.dir, core: r.cores.Device}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.end())
		}
	}()
	if err := os.RemoveAll(d.path("conf.db")); err != nil {
		return nil, err
	}
	if _, err := d.run("ovsdb-tool", "create", d.path("conf.db"), ovsSchema); err != nil {
		return nil, err
	}
	if err := d.startDaemons(r); err != nil {
		return nil, err
	}
	return d, d.configure(r.ports(), flows)
}

func (d *ovsDevice) startDaemons(r *rig) (err error) {
	// The database is no part of forwarding; it waits on the source's core.
	d.database, err = startChild(r.mid, onCores(r.cores.Source), d.dir, d.command("ovsdb-server", d.path("conf.db"),
		"--remote=punix:"+d.path("db.sock"), "--unixctl="+d.path("db.ctl"), "--no-chdir"))
	if err != nil {
		return err
	}
	if err := d.database.waitFor("opening its socket", startWait, exists(d.path("db.sock"))); err != nil {
		return err
	}
	// PMD threads are made as soon as there is a port for them, so the mask comes first.
	if _, err := d.vsctl("--no-wait", "--", "init", "--", "set", "Open_vSwitch", ".",
		fmt.Sprintf("other_config:pmd-cpu-mask=%#x", 1<<d.core)); err != nil {
		return err
	}
	d.daemon, err = startChild(r.mid, onCores(d.core), d.dir, d.command("ovs-vswitchd", "unix:"+d.path("db.sock"),
		"--unixctl="+d.path("vswitchd.ctl"), "--no-chdir"))
	if err != nil {
		return err
	}
	return d.daemon.waitFor("opening its socket", startWait, exists(d.path("vswitchd.ctl")))
}

// configure makes a bridge of AF_XDP ports with flows.
func (d *ovsDevice) configure(ports, flows []string) error {
	add := []string{"--", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail-mode=secure"}
	for i, port := range ports {
		add = append(add, "--", "add-port", "br0", port, "--", "set", "interface", port,
			"type=afxdp", fmt.Sprintf("ofport_request=%d", i+1))
	}
	if _, err := d.vsctl(add...); err != nil {
		return err
	}
	for _, port := range ports {
		if text, err := d.vsctl("get", "interface", port, "error"); err != nil || strings.Trim(text, "[]\"\n ") != "" {
			return fmt.Errorf("add %s to Open vSwitch: %s %w", port, strings.TrimSpace(text), err)
		}
	}
	target := "unix:" + d.path("br0.mgmt")
	for _, flow := range flows {
		if _, err := d.run("ovs-ofctl", "add-flow", target, flow); err != nil {
			return err
		}
	}
	return nil
}

// modeInUse is what ovs-vswitchd logs when it has opened a port, as
// "p0: native-with-zerocopy XDP mode will be in use." The database shows it seconds later.
var modeInUse = regexp.MustCompile(`: (\S+) XDP mode will be in use`)

func (d *ovsDevice) stop() (string, error) {
	granted := "AF_XDP, mode unknown"
	if log, err := os.ReadFile(d.daemon.log); err == nil {
		if m := modeInUse.FindAllSubmatch(log, -1); m != nil {
			granted = "AF_XDP, " + string(m[len(m)-1][1])
		}
	}
	return granted, errors.Join(d.daemon.stop(), d.database.stop())
}

func (d *ovsDevice) end() error {
	var errs []error
	for _, c := range []*child{d.daemon, d.database} {
		if c != nil {
			errs = append(errs, c.end())
		}
	}
	return errors.Join(errs...)
}

func (d *ovsDevice) path(name string) string { return filepath.Join(d.dir, name) }

// command gives a program whose default paths are all in the rig's directory.
func (d *ovsDevice) command(name string, arguments ...string) *exec.Cmd {
	if found, err := exec.LookPath(name); err == nil {
		name = found
	} else {
		name = filepath.Join("/usr/sbin", name) // not in each user's path
	}
	cmd := exec.Command(name, arguments...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+d.dir, "OVS_LOGDIR="+d.dir, "OVS_DBDIR="+d.dir, "OVS_SYSCONFDIR="+d.dir)
	return cmd
}

func (d *ovsDevice) vsctl(arguments ...string) (string, error) {
	return d.run("ovs-vsctl", append([]string{"--db=unix:" + d.path("db.sock"), "--timeout=10"}, arguments...)...)
}

func (d *ovsDevice) run(name string, arguments ...string) (string, error) {
	out, err := d.command(name, arguments...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func exists(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

func peerOVS() Peer {
	p := Peer{Device: "ovs", Name: "Open vSwitch", Package: "openvswitch-switch"}
	d := ovsDevice{dir: os.TempDir()}
	cmd := d.command("ovs-vswitchd", "--version")
	out, err := cmd.Output()
	if err != nil {
		return p
	}
	p.Path = cmd.Path
	first, _, _ := strings.Cut(string(out), "\n")
	if fields := strings.Fields(first); len(fields) > 0 {
		p.Version = fields[len(fields)-1]
	}
	return p
}
