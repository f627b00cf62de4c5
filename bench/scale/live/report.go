package live

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirswitch/weir/bench"
)

// Name of the measurement.
const Name = "scale-live"

// What the medians of answers may take, in ms.
var most = [asks]float64{50, 500}

// result makes the rows.
func (r *run) result() *bench.Result {
	c, m := &r.config, &r.measured
	b := &bench.Result{Name: Name, Seed: c.Seed, Machine: bench.ThisMachine()}
	b.Add("switches", "switches", float64(c.Switches), fmt.Sprintf("in rows of %d, in %d processes, a connection each; epochs of 2^%d ns", rowSwitches, c.Publishers, c.EpochBits), bench.Neither)
	b.Add("budget", "bytes/s", float64(c.Budget), "of each switch", bench.Neither)
	b.Add("seconds", "s", m.seconds, "for which records were made; a server that led the stream was killed after a quarter, a collector after a half, each for an eighth or until it was ready", bench.Neither)
	r.recordRows(b)
	r.collectorRows(b)
	for kind := range asks {
		r.questionRows(b, kind)
	}
	for _, role := range slices.Sorted(maps.Keys(m.cpu)) {
		what := "of processor time per second: all of them"
		switch role {
		case "servers":
			what = "of processor time per second: the mean of the servers that were not killed"
		case "collector":
			what = "of processor time per second: the collector that was not killed, which also answered half of the questions"
		}
		b.Add("cpu."+role, "s/s", m.cpu[role]/m.seconds, what, bench.Lower)
	}
	perRecord := func(role string) float64 { return 1e6 * m.cpu[role] / max(float64(m.stream.messages), 1) }
	r.aloneRows(b)
	b.Add("us_per_record.server", "us", perRecord("servers"), "of processor time, of each server: all that it did, over the records of the stream", bench.Lower)
	b.Add("us_per_record.collector", "us", perRecord("collector"), "of the collector that was not killed, with what questions took", bench.Lower)
	b.Add("cores_per_MB.server", "s/MB", m.cpu["servers"]/max(float64(m.stream.bytes)/1e6, 1e-6), "cores of each server per MB/s of records", bench.Lower)
	b.Add("cores_per_MB.collector", "s/MB", m.cpu["collector"]/max(float64(m.stream.bytes)/1e6, 1e-6), "cores of the collector per MB/s of records", bench.Lower)
	for _, role := range slices.Sorted(maps.Keys(m.memory)) {
		b.Add("memory."+role, "bytes", m.memory[role], "the most that one process has had", bench.Lower)
	}
	return b
}

// aloneRows are what a collector does that only takes records in. Bytes are by the mean of each kind in the whole run.
func (r *run) aloneRows(b *bench.Result) {
	a := &r.measured.alone
	records, bytes := 0., 0.
	for kind, n := range a.kinds {
		all := kindCount{}
		for _, c := range r.counts {
			if x := c.Kinds[kind]; x != nil {
				all.Written, all.Bytes = all.Written+x.Written, all.Bytes+x.Bytes
			}
		}
		records += float64(n)
		bytes += float64(n) * float64(all.Bytes) / float64(max(all.Written, 1))
	}
	b.Add("alone.records_per_second", "records/s", records/a.seconds, fmt.Sprintf("that the collector which was not killed took in before questions began, in %.0f s", a.seconds), bench.Neither)
	b.Add("alone.bytes_per_second", "bytes/s", bytes/a.seconds, "of these", bench.Neither)
	b.Add("alone.cpu", "s/s", a.cpu/a.seconds, "of processor time per second: that collector meanwhile", bench.Lower)
	b.Add("us_per_record.alone", "us", 1e6*a.cpu/max(records, 1), "of the same", bench.Lower)
}

// recordRows are about what was made, and where it is.
func (r *run) recordRows(b *bench.Result) {
	m := &r.measured
	var packets, left, written, bytes, lost, over, sent, waiting, dropped, retried, duplicates uint64
	behind, reasons := 0., map[string]uint64{}
	for _, c := range r.counts {
		packets, left, retried, duplicates = packets+c.Packets, left+c.Left, retried+c.Retried, duplicates+c.Duplicates
		behind = max(behind, c.Behind)
		for _, k := range c.Kinds {
			written, bytes, lost, over, sent, waiting = written+k.Written, bytes+k.Bytes, lost+k.Lost, over+k.OverBudget, sent+k.Sent, waiting+k.Waiting
			for reason, n := range k.Dropped {
				dropped += n
				reasons[reason] += n
			}
		}
	}
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		why = append(why, fmt.Sprintf("%s %d", reason, reasons[reason]))
	}
	s := &m.stream
	b.Add("packets_per_second", "packets/s", float64(packets)/m.seconds, fmt.Sprintf("that entered the network, of %d: for the others the machine had no time; %d did not leave it", r.config.Packets, left), bench.Neither)
	b.Add("publishers_behind", "s", behind, "the longest that a packet waited for its publisher", bench.Lower)
	b.Add("records.made", "records", float64(written+lost+over), "by the systems of all switches, and statuses", bench.Neither)
	b.Add("records.written", "records", float64(written), "to spools", bench.Neither)
	b.Add("records.alike", "records", float64(s.alike), "written, and byte by byte like another of the same switch: the stream has one of them", bench.Lower)
	b.Add("records.lost", "records", float64(lost), "no spool took them: counted", bench.Lower)
	b.Add("records.over_budget", "records", float64(over), "not sent as the exporter's budget had no room: counted", bench.Lower)
	b.Add("records.dropped", "records", float64(dropped), "from spools: counted; "+strings.Join(why, ", "), bench.Lower)
	b.Add("records.waiting", "records", float64(waiting), "in spools at the end", bench.Lower)
	b.Add("records.stored", "records", float64(s.once), fmt.Sprintf("found in the stream, of %d servers' copies; %d were published again, of which the stream knew %d", replicas, retried, duplicates), bench.Neither)
	b.AddAgainst("records.not_accounted", "records", float64(s.unaccounted()), 0, "written, and neither in the stream nor counted as dropped or waiting, summed over kinds and switches, each balanced alone; reference: the goal", bench.Lower)
	b.Add("records.unacknowledged", "records", float64(s.unacked), "counted as waiting, and in the stream", bench.Neither)
	b.AddAgainst("records.twice", "records", float64(s.again), 0, "in the stream again; reference: the goal", bench.Lower)
	b.AddAgainst("records.strange", "records", float64(s.strange), 0, "in the stream, and written by no switch; reference: the goal", bench.Lower)
	b.Add("records_per_second", "records/s", float64(s.messages)/m.seconds, "in the stream", bench.Neither)
	b.Add("bytes_per_second", "bytes/s", float64(s.bytes)/m.seconds, "in the stream", bench.Neither)
	b.Add("bytes_per_switch", "bytes/s", float64(bytes)/m.seconds/float64(r.config.Switches), "written to the spool", bench.Neither)
	for _, k := range slices.Sorted(maps.Keys(s.kinds)) {
		n, size := uint64(0), uint64(0)
		for _, c := range r.counts {
			if x := c.Kinds[k.String()]; x != nil {
				n, size = n+x.Written, size+x.Bytes
			}
		}
		b.Add("bytes_per_record."+k.String(), "bytes", float64(size)/float64(max(n, 1)), fmt.Sprintf("of %d records", n), bench.Lower)
	}
	b.Add("drain", "s", m.drained, "from the last packet until both collectors had read the last record", bench.Lower)
}

// collectorRows say whether collectors have what the stream has.
func (r *run) collectorRows(b *bench.Result) {
	forgotten := uint64(0)
	for _, s := range r.measured.statuses {
		for _, k := range s.GetKinds() {
			forgotten += k.Forgotten
		}
	}
	b.AddAgainst("collectors.not_applied", "records", float64(r.measured.unapplied()), 0, "in the stream, and not applied once by each collector, as those that come late to a full memory; of digests, that both together lack; reference: the goal", bench.Lower)
	b.Add("collectors.forgotten", "records", float64(forgotten), "that left a collector's memory to make room", bench.Lower)
	b.Add("collectors.back", "s", r.measured.back, "from the start of the collector that was killed until it had read what the stream had then", bench.Lower)
}

// questionRows are about a kind of question.
func (r *run) questionRows(b *bench.Result, kind int) {
	name, all := askNames[kind], tally{}
	for p := range phases {
		t := &r.asked.tally[kind][p]
		all.ms, all.rightMs = append(all.ms, t.ms...), append(all.rightMs, t.rightMs...)
		all.right, all.none, all.wrong, all.refused = all.right+t.right, all.none+t.none, all.wrong+t.wrong, all.refused+t.refused
	}
	b.AddAgainst(name+"_ms", "ms", median(all.ms), most[kind], fmt.Sprintf("median of %d answers over the API, all phases; reference: the goal", len(all.ms)), bench.Lower)
	b.Add(name+"_ms.p90", "ms", quantile(all.ms, 0.9), "of the same", bench.Lower)
	b.Add(name+"_ms.right", "ms", median(all.rightMs), fmt.Sprintf("median of the %d that are right and complete", len(all.rightMs)), bench.Lower)
	for p := range phases {
		t := &r.asked.tally[kind][p]
		what := fmt.Sprintf("median of %d; %d right, %d incomplete, %d wrong, %d refused", len(t.ms), t.right, t.none, t.wrong, t.refused)
		for _, reason := range slices.Sorted(maps.Keys(t.reasons)) {
			what += fmt.Sprintf("; %d: %s", t.reasons[reason], reason)
		}
		b.Add(name+"_ms."+phaseNames[p], "ms", median(t.ms), what, bench.Neither)
	}
	right := map[int]string{askPath: "certain and wrong", askHeavy: "without one of the flows that send most, and without saying that something is missing"}[kind]
	b.Add(name+".asked", "questions", float64(all.right+all.none+all.wrong+all.refused), "of which the rows of phases say what became", bench.Higher)
	b.Add(name+".wrong", "answers", float64(all.wrong), right, bench.Lower)
}
