package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/telemetry/view/text"
)

func printPorts(w io.Writer, ports []*api.Port) error {
	t := text.NewTable("PORT", "INTERFACE", "~LINK", "DRIVER", "MODE", ">QUEUES", ">MTU",
		">RECEIVED", ">FORWARDED", ">CONSUMED", "!>DROPPED", ">TRANSMITTED", "!>LOST")
	for _, p := range ports {
		mtu := fmt.Sprint(p.Mtu)
		if p.State == string(port.StateGone) || p.State == string(port.StateRebuilding) {
			mtu = "-" // there is no interface that has one
		}
		t.Row(p.Name, p.Interface, control.Link(p), p.Driver, p.Mode, p.Queues, mtu,
			p.Received, p.Forwarded, p.Consumed, sum(p.Dropped), p.Transmitted, sum(control.Losses(p)))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if err := printFaults(w, ports); err != nil {
		return err
	}
	if err := printSettings(w, ports); err != nil {
		return err
	}
	if err := printClasses(w, ports); err != nil {
		return err
	}
	return printReasons(w, ports)
}

// printClasses adds, for ports whose packets wait by class, what became of these.
func printClasses(w io.Writer, ports []*api.Port) error {
	t := text.NewTable("PORT", "CLASS", ">PACKETS", ">SENT", ">SENT BYTES", "!>DROPPED", ">UNSENT", ">WAIT", ">ROOM")
	for _, p := range ports {
		for _, k := range p.Classes {
			t.Row(p.Name, k.Name, k.Packets, k.Sent, k.SentBytes, k.Dropped, k.Unsent, k.Depth, k.Room)
		}
	}
	if t.Empty() {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w)
}

// printFaults adds, for ports that cannot do all they should, or have a lesser mode, why.
func printFaults(w io.Writer, ports []*api.Port) error {
	first := "\n"
	for _, p := range ports {
		if p.Blocked != "" {
			if _, err := fmt.Fprintf(w, "%s%s is blocked: %s\n", first, p.Name, p.Blocked); err != nil {
				return err
			}
			first = ""
		}
		if p.Error == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s%s is %s: %s\n", first, p.Name, p.State, p.Error); err != nil {
			return err
		}
		first = ""
	}
	fellBack := map[string][]string{} // by why their modes are less
	for _, p := range ports {
		for _, why := range p.Fallbacks {
			fellBack[why] = append(fellBack[why], p.Name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(fellBack)) {
		if _, err := fmt.Fprintf(w, "%s%s: %s\n", first, strings.Join(fellBack[why], ", "), why); err != nil {
			return err
		}
		first = ""
	}
	return nil
}

// printSettings adds which settings of the interfaces the ports have changed, and which they could not.
func printSettings(w io.Writer, ports []*api.Port) error {
	t := text.NewTable("PORT", "SETTING", "WAS", "IS", "NOT CHANGED BECAUSE")
	for _, p := range ports {
		for _, s := range p.Settings {
			t.Row(p.Name, s.Name, nic.Short(s.Was), nic.Short(s.Is), "")
		}
		for _, s := range p.Refused {
			t.Row(p.Name, s.Name, "", "", s.Why)
		}
	}
	if t.Empty() {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w)
}

// printReasons adds, for ports where packets ended, why.
func printReasons(w io.Writer, ports []*api.Port) error {
	t := text.NewTable("PORT", "WHAT", "REASON", ">PACKETS")
	for _, p := range ports {
		for _, kind := range []struct {
			what   string
			counts map[string]uint64
		}{
			{"dropped", p.Dropped},
			{"copy dropped", p.Copies.GetDropped()},
			{"lost", control.Losses(p)},
			{"left to the kernel", map[string]uint64{"kept": p.Kept, "no_socket": p.NoSocket}},
			{"received", map[string]uint64{"checksums_completed": p.ChecksumsCompleted}},
			{"disconnected", map[string]uint64{"ring_faults": p.RingFaults}},
			{"refused of the rings", p.Faults},
		} {
			for _, reason := range slices.Sorted(maps.Keys(kind.counts)) {
				if n := kind.counts[reason]; n != 0 {
					t.Row(p.Name, kind.what, reason, n)
				}
			}
		}
	}
	if t.Empty() {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return t.Write(w)
}

func printStages(w io.Writer, stages []*api.Stage) error {
	t := text.NewTable("STAGE", ">PACKETS", ">BATCHES", ">PACKETS/BATCH", "!>DROPPED", ">COPIED", ">NS/PACKET")
	for _, s := range stages {
		cost := "-" // not one batch was timed
		if s.SampledPackets != 0 {
			cost = fmt.Sprintf("%.1f", s.NsPerPacket)
		}
		t.Row(s.Name, s.Packets, s.Batches, ratio(s.Packets, s.Batches), s.Dropped, s.Copied, cost)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	return untimed(w, slices.ContainsFunc(stages, func(s *api.Stage) bool { return s.Packets != 0 && s.SampledPackets == 0 }))
}

// untimed explains the "-" of a stage's time.
func untimed(w io.Writer, some bool) error {
	if !some {
		return nil
	}
	_, err := fmt.Fprintln(w, "NS/PACKET \"-\": no batch was timed yet, as only one in 64 is")
	return err
}

func printWorkers(w io.Writer, workers []*api.Worker) error {
	t := text.NewTable(">WORKER", ">CORE", ">THREAD", "QUEUES", ">PACKETS", ">BATCHES", ">PACKETS/BATCH",
		">HANDED OVER", ">STEERED", ">TAKEN OVER", ">SLEEPS", ">FREE FRAMES")
	for _, x := range workers {
		core := fmt.Sprint(x.Core)
		if x.Core < 0 {
			core = "any"
		}
		t.Row(x.Id, core, x.Thread, strings.Join(x.Queues, " "), x.Packets, x.Batches, ratio(x.Packets, x.Batches),
			x.HandedOver, x.Steered, x.TakenOver, x.Sleeps, x.FreeFrames)
	}
	return t.Write(w)
}

func printFdb(w io.Writer, entries []*api.FdbEntry) error {
	segment := ">VLAN"
	if slices.ContainsFunc(entries, func(e *api.FdbEntry) bool { return e.Domain != "" }) {
		segment = "DOMAIN"
	}
	t := text.NewTable(segment, "MAC", "PORT", "KIND", ">AGE")
	for _, e := range entries {
		kind, age := "learned", fmt.Sprint(time.Duration(e.AgeNs).Truncate(time.Second))
		if e.Static {
			kind, age = "static", "-"
		}
		vlan := "-"
		if e.Vlan != 0 {
			vlan = fmt.Sprint(e.Vlan)
		}
		if e.Domain != "" {
			vlan = e.Domain
		}
		t.Row(vlan, e.Mac, e.Port, kind, age)
	}
	return t.Write(w)
}

func printReport(w io.Writer, r *api.ReportResponse) error {
	if _, err := fmt.Fprintf(w, "switch %s, id %d\n\n", r.Name, r.Id); err != nil {
		return err
	}
	sections := []func() error{
		func() error { return printPorts(w, r.Ports) },
		func() error { return printStages(w, r.Stages) },
		func() error { return printWorkers(w, r.Workers) },
		func() error { return printSum(w, r) },
	}
	for i, section := range sections {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := section(); err != nil {
			return err
		}
	}
	return nil
}

func printSum(w io.Writer, r *api.ReportResponse) error {
	verdict := "the counters add up"
	if !r.Balanced {
		verdict = text.Paint(w, text.Red, "the counters do NOT add up")
	}
	_, err := fmt.Fprintf(w, "received %d = forwarded %d + consumed %d + dropped %d\n"+
		"copied %d = forwarded %d + consumed %d + dropped %d\n"+
		"%s; frames: %d of %d bytes, %d lost\n",
		r.Received, r.Forwarded, r.Consumed, sum(r.Dropped),
		r.Copies.GetReceived(), r.Copies.GetForwarded(), r.Copies.GetConsumed(), sum(r.Copies.GetDropped()),
		verdict, r.Frames.GetTotal(), r.Frames.GetSize(), r.Frames.GetLost())
	return err
}

func sum(counts map[string]uint64) uint64 {
	var n uint64
	for _, v := range counts {
		n += v
	}
	return n
}

func ratio(a, b uint64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(a)/float64(b))
}
