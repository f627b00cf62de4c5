package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userHz is the unit of times in /proc: 1/100 s on each Linux architecture that Go knows.
const userHz = 100

// CPUTime is processor time by kind. The kernel counts it by sampling at each timer tick
// (or exactly, with CONFIG_VIRT_CPU_ACCOUNTING), so take it over seconds.
type CPUTime struct {
	User, System, IRQ, Softirq, Idle, Steal time.Duration
}

// busy is all time spent working, in whatever context.
func (t CPUTime) busy() time.Duration { return t.User + t.System + t.IRQ + t.Softirq }

// PerPacket is the busy time for each of n packets, in ns.
func (t CPUTime) PerPacket(n uint64) float64 {
	if n == 0 {
		return 0
	}
	return float64(t.busy().Nanoseconds()) / float64(n)
}

func (t CPUTime) minus(u CPUTime) CPUTime {
	return CPUTime{
		t.User - u.User, t.System - u.System, t.IRQ - u.IRQ,
		t.Softirq - u.Softirq, t.Idle - u.Idle, t.Steal - u.Steal,
	}
}

// CPUUsage is processor time since boot, or between two readings.
type CPUUsage struct {
	At    time.Duration // since the process began to measure, or between the readings
	Total CPUTime
	// Cores by number.
	Cores map[int]CPUTime
	// Tasks are the processes and threads asked for, by id; only User and System are known.
	// A task's System includes the softirqs that ran on top of it.
	Tasks map[int]CPUTime
}

var cpuEpoch = time.Now()

// ReadCPU reads the time used so far by the machine and by processes or threads. Give a
// process id for a process with all its threads.
func ReadCPU(tasks ...int) (CPUUsage, error) {
	u := CPUUsage{At: time.Since(cpuEpoch), Cores: map[int]CPUTime{}, Tasks: map[int]CPUTime{}}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, fmt.Errorf("read processor times: %w", err)
	}
	if u.Total, err = parseStat(stat, u.Cores); err != nil {
		return u, fmt.Errorf("read processor times: %w", err)
	}
	for _, id := range tasks {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			return u, fmt.Errorf("read processor time of task %d: %w", id, err)
		}
		if u.Tasks[id], err = parseTaskStat(stat); err != nil {
			return u, fmt.Errorf("read processor time of task %d: %w", id, err)
		}
	}
	return u, nil
}

// Threads lists the threads of a process, for ReadCPU.
func Threads(pid int) ([]int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("list threads of process %d: %w", pid, err)
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Since is the time used from an earlier reading to this one. Tasks missing from the earlier
// reading count from their beginning.
func (u CPUUsage) Since(earlier CPUUsage) CPUUsage {
	d := CPUUsage{
		At: u.At - earlier.At, Total: u.Total.minus(earlier.Total),
		Cores: map[int]CPUTime{}, Tasks: map[int]CPUTime{},
	}
	for core, t := range u.Cores {
		d.Cores[core] = t.minus(earlier.Cores[core])
	}
	for id, t := range u.Tasks {
		d.Tasks[id] = t.minus(earlier.Tasks[id])
	}
	return d
}

var errStat = errors.New("unexpected format")

// parseStat reads /proc/stat (Documentation/filesystems/proc.rst): user nice system idle
// iowait irq softirq steal guest guest_nice, of which guest times are part of user.
func parseStat(stat []byte, cores map[int]CPUTime) (total CPUTime, err error) {
	seen := false
	for line := range bytes.Lines(stat) {
		name, rest, ok := strings.Cut(string(line), " ")
		if !ok || !strings.HasPrefix(name, "cpu") {
			continue
		}
		t, err := ticks(strings.Fields(rest), 8)
		if err != nil {
			return total, err
		}
		c := CPUTime{User: t[0] + t[1], System: t[2], Idle: t[3] + t[4], IRQ: t[5], Softirq: t[6], Steal: t[7]}
		if name == "cpu" {
			total, seen = c, true
			continue
		}
		core, err := strconv.Atoi(name[len("cpu"):])
		if err != nil {
			return total, errStat
		}
		cores[core] = c
	}
	if !seen {
		return total, errStat
	}
	return total, nil
}

// parseTaskStat reads /proc/PID/stat, fields 14 (utime) and 15 (stime), counted behind the
// name, which may hold spaces and parentheses itself.
func parseTaskStat(stat []byte) (CPUTime, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return CPUTime{}, errStat
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 13 {
		return CPUTime{}, errStat
	}
	t, err := ticks(fields[11:13], 2)
	if err != nil {
		return CPUTime{}, err
	}
	return CPUTime{User: t[0], System: t[1]}, nil
}

func ticks(fields []string, n int) ([]time.Duration, error) {
	if len(fields) < n {
		return nil, errStat
	}
	out := make([]time.Duration, n)
	for i := range out {
		v, err := strconv.ParseUint(fields[i], 10, 63)
		if err != nil {
			return nil, errStat
		}
		out[i] = time.Duration(v) * (time.Second / userHz)
	}
	return out, nil
}
