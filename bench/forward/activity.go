package forward

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/traffic"
)

// Activity is what the machine did beside the measurement. Shares are of the time of all its cores.
type Activity struct {
	// LoadStart and LoadEnd are the load averages of a minute.
	LoadStart float64 `json:"load_average_start"`
	LoadEnd   float64 `json:"load_average_end"`
	// Others is the share that other processes took, and Stolen the one that a hypervisor gave to others.
	Others float64 `json:"others_share"`
	Stolen float64 `json:"stolen_share"`
}

// busyAbove is the share of the cores above which other processes mark a figure as busy; for what a hypervisor took it is stolenMost.
const busyAbove = 0.1

// Busy reports that others took enough of the machine to lower the figures.
func (a *Activity) Busy() bool { return a.Others > busyAbove || a.Stolen > stolenMost }

func (a *Activity) String() string {
	return fmt.Sprintf("load average %.2f at the start, %.2f at the end; other processes took %s of the cores, a hypervisor %s", a.LoadStart, a.LoadEnd, percent(a.Others), percent(a.Stolen))
}

// watch is the beginning of a measurement.
type watch struct {
	load float64
	used traffic.CPUUsage
}

func watchMachine() (w watch, err error) {
	if w.load, err = loadAverage(); err != nil {
		return w, err
	}
	w.used, err = traffic.ReadCPU(os.Getpid())
	return w, err
}

// end is what happened since w.
func (w *watch) end() (a Activity, err error) {
	now, err := watchMachine()
	if err != nil {
		return a, err
	}
	used := now.used.Since(w.used)
	a = activity(used.Total, used.Tasks[os.Getpid()])
	a.LoadStart, a.LoadEnd = w.load, now.load
	return a, nil
}

// activity takes the processor time of all cores, and that of this process. The kernel counts what interrupts do (softirqs, where a local
// device forwards) in this process's system time, too, so each kind is compared by itself, and the share of others is rather too low.
func activity(all, own traffic.CPUTime) (a Activity) {
	total := all.User + all.System + all.IRQ + all.Softirq + all.Idle + all.Steal
	if total <= 0 {
		return a
	}
	share := func(d time.Duration) float64 { return max(d.Seconds()/total.Seconds(), 0) }
	a.Others = share(all.User-own.User) + share(all.System-own.System)
	a.Stolen = share(all.Steal)
	return a
}

// loadAverage is that of the last minute.
func loadAverage() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("read the load average: %w", err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("read the load average: %w", err)
	}
	return load, nil
}
