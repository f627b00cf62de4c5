package forward

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sys/unix"
)

// weirConfig is the switch's configuration. Whatever it leaves out has its default, as a user has it.
var weirConfig = template.Must(template.New("weir").Parse(`
[switch]
name = "bench"
id = 1
graph = [{{if .All}}"parse", "oblivious", "lds_ingress", "l2", "pint", "disketch", "lds_egress"{{else}}"parse", "{{.Stage}}"{{end}}]

[workers]
count = {{len .Cores}}
cores = [{{range $i, $core := .Cores}}{{if $i}}, {{end}}{{$core}}{{end}}]
poll = "{{.Poll}}"

{{if .Ring}}
[dataplane]
rx_ring = {{.Ring}}
tx_ring = {{.Ring}}
fill_ring = {{.Ring}}
completion_ring = {{.Ring}}
{{end}}
{{range .Ports}}
[[port]]
name = "{{.}}"
interface = "{{.}}"
driver = "{{$.Driver}}"
{{if eq $.Driver "xsk"}}busy_poll = {{$.BusyPoll}}{{end}}
{{end}}
{{if .All}}
[telemetry]
spool = "{{.Dir}}/spool"

[stages.lds_ingress]
ports = ["p0"]

[stages.lds_egress]
ports = ["p1"]

[stages.pint]
plan = "{{.Dir}}/plan.toml"
switches = [1]
edge = [{{range $i, $p := .Ports}}{{if $i}}, {{end}}"{{$p}}"{{end}}]
{{end}}
{{if eq .Stage "patch"}}
[stages.patch]
pairs = [["p0", "p1"]]
{{end}}
[control]
socket = "{{.Socket}}"
`))

// startWeir starts `weir switch` with a driver, a forwarding stage, and a worker on the device's core.
func startWeir(driver, stage string) func(*rig, deviceOptions) (running, error) {
	return startWorkers(driver, stage, func(c Cores) []int { return []int{c.Device} })
}

// startWorkers starts it with a worker on each of some cores.
func startWorkers(driver, stage string, coresOf func(Cores) []int) func(*rig, deviceOptions) (running, error) {
	return func(r *rig, o deviceOptions) (running, error) {
		config := filepath.Join(r.dir, "weir.toml")
		cores := coresOf(r.cores)
		var text strings.Builder
		err := weirConfig.Execute(&text, map[string]any{
			"Stage": stage, "All": stage == "l2_all", "Dir": r.dir, "Ports": r.ports(), "Driver": driver, "Cores": cores, "Poll": o.poll, "BusyPoll": o.busy, "Ring": o.ring,
			"Socket": filepath.Join(r.dir, "weir.sock"),
		})
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
			return nil, err
		}
		if stage == "l2_all" {
			if err := writePlan(o.weir, r.dir); err != nil {
				return nil, err
			}
		}
		return runWeir(r, o, config, onCores(cores...))
	}
}

// writePlan writes a plan of PINT whose digests are in the IPv4 identification: packets keep their length.
func writePlan(weir []string, dir string) error {
	plan := exec.Command(weir[0], append(slices.Clone(weir[1:]), "plan", "--carrier", "ipid", "--id", "3", "--out", filepath.Join(dir, "plan.toml"))...)
	if out, err := plan.CombinedOutput(); err != nil {
		return fmt.Errorf("weir plan: %w: %s", err, out)
	}
	return nil
}

// weirDevice is a switch in its own process.
type weirDevice struct {
	*child
	report string // path
}

// runWeir starts the switch and waits for its line "ready".
func runWeir(r *rig, o deviceOptions, config string, cores unix.CPUSet) (running, error) {
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	defer theirs.Close()
	report, err := os.Create(filepath.Join(r.dir, "weir.json"))
	if err != nil {
		return nil, err
	}
	defer report.Close()
	cmd := exec.Command(o.weir[0], append(slices.Clone(o.weir[1:]), "switch", "-c", config, "--report", "json")...)
	cmd.Stdout = report
	cmd.ExtraFiles = []*os.File{theirs} // becomes descriptor 3
	cmd.Env = append(os.Environ(), "WEIR_READY_FD=3")
	if o.collections {
		cmd.Env = append(cmd.Env, "GODEBUG=gctrace=1")
	}
	c, err := startChild(r.mid, cores, r.dir, cmd)
	if err != nil {
		return nil, err
	}
	theirs.Close()
	err = c.waitFor("forwarding", startWait, func() bool {
		var line [64]byte
		_ = ready.SetReadDeadline(time.Now().Add(time.Millisecond))
		n, _ := ready.Read(line[:])
		return strings.HasPrefix(string(line[:n]), "ready")
	})
	if err != nil {
		return nil, errors.Join(err, c.end())
	}
	return weirDevice{c, report.Name()}, nil
}

// stop reads the switch's own report: a switch whose counters do not add up is not to be
// believed.
func (d weirDevice) stop() (string, error) {
	if err := d.child.stop(); err != nil {
		return "", err
	}
	text, err := os.ReadFile(d.report)
	if err != nil {
		return "", fmt.Errorf("read the switch's report: %w", err)
	}
	var report struct {
		Modes    []string `json:"modes"`
		Balanced bool     `json:"balanced"`
	}
	if err := json.Unmarshal(text, &report); err != nil || len(report.Modes) == 0 {
		return "", fmt.Errorf("read the switch's report %q (its log ends: %s): %w", text, d.tail(), err)
	}
	if !report.Balanced {
		return "", fmt.Errorf("the switch's counters do not add up: %s", text)
	}
	_, granted, _ := strings.Cut(report.Modes[0], ": ")
	return granted, nil
}
