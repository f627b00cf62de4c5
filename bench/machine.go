package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is where a result was measured. Figures of different machines do not compare.
type Machine struct {
	CPU    string `json:"cpu"`    // model and number of cores
	Kernel string `json:"kernel"` // release, as uname -r has it
	Go     string `json:"go"`     // version and platform
}

// ThisMachine describes the machine. What cannot be found out is "unknown".
func ThisMachine() Machine {
	m := Machine{CPU: "unknown", Kernel: "unknown", Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = cpuModel(info)
	}
	m.CPU += fmt.Sprintf(", %d cores", runtime.NumCPU())
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	return m
}

// cpuModel takes the first "model name" of /proc/cpuinfo, which ARM machines lack.
func cpuModel(info []byte) string {
	for line := range bytes.Lines(info) {
		if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
