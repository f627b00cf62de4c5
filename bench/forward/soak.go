package forward

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/weirswitch/weir/bench"
)

const (
	// soakShare of the NDR is offered in a soak.
	soakShare = 0.9
	// soakPart is how long the source runs without a break, which takes some 30 ms.
	soakPart = 10 * time.Second
)

// Soak is what a long run at a steady rate brought, with the garbage collector on.
type Soak struct {
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"rate"` // packets per second that were offered
	Packets uint64  `json:"packets"`
	Lost    uint64  `json:"lost"`
	// Losses are the packets lost in each part of the run, of 10 s.
	Losses []uint64 `json:"losses"`
	P50    float64  `json:"p50"` // ns
	P999   float64  `json:"p999"`
	Max    float64  `json:"max"` // the longest time that a packet took
	// RSS is the switch's resident memory in bytes: behind each part of the run.
	RSS []uint64 `json:"rss"`
	// Collections of garbage, and the longest of their pauses in ns.
	Collections int     `json:"collections"`
	Pause       float64 `json:"pause"`
	// Steal is the share of both cores' time that the hypervisor gave to others.
	Steal float64 `json:"steal"`
}

// soak offers a rate for a long time, in parts.
func (r *rig) soak(ctx context.Context, whole time.Duration, rate float64, device running, progress func(time.Duration)) (*Soak, error) {
	d := device.(weirDevice) // Config.Validate sees to that
	s := &Soak{Rate: rate}
	latency := hdrhistogram.New(1, int64(time.Hour), 3)
	var stolen, elapsed time.Duration
	for done := time.Duration(0); done < whole; {
		progress(done)
		part := min(soakPart, whole-done)
		t, err := r.offer(ctx, rate, part)
		if err != nil {
			return nil, err
		}
		done += part
		s.Packets += t.sent.Packets
		lost := t.got.Lost(t.sent.Packets)
		s.Lost, s.Losses = s.Lost+lost, append(s.Losses, lost)
		latency.Merge(t.got.Latency)
		stolen += t.cpu.Cores[r.cores.Device].Steal + t.cpu.Cores[r.cores.Source].Steal
		elapsed += t.cpu.At
		rss, err := residentMemory(d.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		s.RSS = append(s.RSS, rss)
	}
	s.Seconds = whole.Seconds()
	s.P50, s.P999, s.Max = float64(latency.ValueAtQuantile(50)), float64(latency.ValueAtQuantile(99.9)), float64(latency.Max())
	if elapsed > 0 {
		s.Steal = stolen.Seconds() / (2 * elapsed.Seconds())
	}
	log, err := os.ReadFile(d.log)
	if err != nil {
		return nil, err
	}
	n, pause := collections(log)
	s.Collections, s.Pause = n, float64(pause)
	return s, nil
}

// residentMemory of a process, in bytes (Documentation/filesystems/proc.rst, statm).
func residentMemory(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("read the memory of process %d: unexpected format", pid)
	}
	pages, err := strconv.ParseUint(fields[1], 10, 50)
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return pages * uint64(os.Getpagesize()), nil
}

// collections counts the lines that GODEBUG=gctrace=1 makes (package runtime), such as
//
//	gc 1 @0.012s 2%: 0.018+1.1+0.003 ms clock, 0.036+... ms cpu, ...
//
// and finds the longest pause: the world is stopped for the first and the last of the three times.
func collections(log []byte) (n int, longest time.Duration) {
	for line := range bytes.Lines(log) {
		text := string(line)
		if !strings.HasPrefix(text, "gc ") {
			continue
		}
		_, rest, _ := strings.Cut(text, "%: ")
		clock, _, ok := strings.Cut(rest, " ms clock")
		phases := strings.Split(clock, "+")
		if !ok || len(phases) != 3 {
			continue
		}
		n++
		for _, phase := range []string{phases[0], phases[2]} {
			if ms, err := strconv.ParseFloat(phase, 64); err == nil {
				longest = max(longest, time.Duration(ms*float64(time.Millisecond)))
			}
		}
	}
	return n, longest
}

// addSoak adds the figures of the soaks of a device: sums and worst cases over the rounds.
func addSoak(r *bench.Result, base string, samples []Sample) {
	var all Soak
	var growth float64
	var first, last uint64
	for _, sample := range samples {
		s := sample.Soak
		if s == nil {
			continue
		}
		all.Seconds += s.Seconds
		all.Packets += s.Packets
		all.Lost += s.Lost
		all.Collections += s.Collections
		all.Rate = max(all.Rate, s.Rate)
		all.P999, all.Max = max(all.P999, s.P999), max(all.Max, s.Max)
		all.Pause, all.Steal = max(all.Pause, s.Pause), max(all.Steal, s.Steal)
		first, last = s.RSS[0], s.RSS[len(s.RSS)-1]
		growth = max(growth, float64(last)-float64(first))
	}
	if all.Packets == 0 {
		return
	}
	about := fmt.Sprintf("%.0f s at 90 %% of ndr", all.Seconds)
	r.Add(base+"soak.rate", "pps", all.Rate, about, bench.Neither)
	r.Add(base+"soak.packets", "packets", float64(all.Packets), about, bench.Neither)
	r.Add(base+"soak.lost", "packets", float64(all.Lost), about, bench.Lower)
	r.Add(base+"soak.latency_p999", "ns", all.P999, about, bench.Lower)
	r.Add(base+"soak.latency_max", "ns", all.Max, about+"; the longest time that a packet took", bench.Lower)
	r.Add(base+"soak.gc_pause_max", "ns", all.Pause, fmt.Sprintf("longest of %d collections of garbage", all.Collections), bench.Lower)
	r.Add(base+"soak.rss_start", "bytes", float64(first), fmt.Sprintf("resident memory behind the first %v", soakPart), bench.Neither)
	r.Add(base+"soak.rss_end", "bytes", float64(last), "resident memory at the end", bench.Lower)
	r.Add(base+"soak.rss_growth", "bytes", growth, "from there to the end", bench.Lower)
	r.Add(base+"soak.stolen", "share", all.Steal, "of both cores, by the hypervisor", bench.Lower)
}
