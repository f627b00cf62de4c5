package scale

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/telemetry/record"
)

// The assumptions.
const (
	rate  = 100e9 // bits per second that each switch forwards
	hops  = 5     // switches that a packet passes
	ports = 4     // of 25 Gbit/s each, with a measurement point in each direction

	collectorDigests = 200_000 // that a collector on two cores takes in a second
	collectorRecords = 2_000   // of recordBytes
	recordBytes      = 38_700  // of a fragment of 128 KiB, as weir bench collect encodes it
	serverBytes      = 250e6   // that a NATS server is taken to write to its disk in a second
	replicas         = 3       // copies of each record, on the servers of its region
	epochs           = 100     // that are kept in memory
	slice            = (1 << 30) / 1e9
)

// setting is the budget of switches.
type setting struct {
	Name   string
	Budget float64 // bytes per second; 0: none
}

// settings are the default, and others.
var settings = []setting{{"no budget", 0}, {"1 MB/s, the default", 1e6}, {"250 kB/s", 250e3}}

// points are those of a switch.
const points = 2 * ports

// sizes are the networks, in switches.
var sizes = []int{20, 1000, 10_000}

// need is what a network makes and takes.
type need struct {
	Switches   int
	Setting    string
	Digests    float64 // per second, and flows that sinks list
	Records    float64 // per second, digests' too
	Bytes      float64 // per second
	DiskPerDay float64 // bytes, on all servers
	Kept       float64 // bytes of epochs slices, as records are encoded
	// Regions, of which each has its own stream on replicas servers and up to 16 collectors; Servers and Collectors are those of all. 0: not even a switch
	// alone would be small enough a region.
	Regions    int
	Servers    int
	Collectors int
}

// needOf counts by the formulas of docs/scale.md.
func needOf(n int, s setting, one *second) need {
	switches := float64(n)
	need := need{Switches: n, Setting: s.Name}
	var others float64 // bytes of records other than digests'
	if c := one.Cuts[s.Budget]; c != nil {
		need.Digests = switches * (c.Digests + c.Flows)
		need.Records = switches * c.Records
		others = switches * (c.Bytes - c.PINTBytes)
		need.Bytes = switches * c.Bytes
	} else {
		each := switches / slice
		need.Digests = each * float64(one.Packets) / hops
		batches := max(need.Digests/batchDigests, each*16) // 16 partitions, once a slice at least
		need.Records = batches + each*(3+points)
		header := float64(one.Bytes["pint"]) - one.DigestBytes*batchDigests + 100
		others = each * float64(one.Bytes["disketch"]+one.Bytes["oblivious"]+points*one.Bytes["lds"]+one.Bytes["status"])
		need.Bytes = need.Digests*one.DigestBytes + batches*max(header, 0) + others
	}
	need.DiskPerDay = need.Bytes * 86400 * replicas
	need.Kept = need.Bytes * slice * epochs
	for need.Regions = 1; need.Regions <= n; need.Regions++ {
		share := math.Ceil(switches/float64(need.Regions)) / switches
		// Every collector of a region takes all of its records but digests.
		room := 1 - share*others/(collectorRecords*recordBytes)
		want := math.Ceil(share * need.Digests / collectorDigests * one.PartitionExcess / max(room, 0.01))
		// Each of its servers writes all of its records.
		if room > 0 && want <= record.Partitions && share*need.Bytes <= serverBytes {
			need.Servers, need.Collectors = need.Regions*replicas, need.Regions*max(1, int(want))
			return need
		}
	}
	need.Regions = 0
	return need
}

// needs are those of all sizes and settings.
func needs(one *second) (all []need) {
	for _, n := range sizes {
		for _, s := range settings {
			all = append(all, needOf(n, s, one))
		}
	}
	return all
}

// Run gives the same as rows.
func Run(_ context.Context, o bench.Options) (*bench.Result, error) {
	one, err := simulate(netsim.DataDir(), rate, ports, o.Seed)
	if err != nil {
		return nil, err
	}
	r := &bench.Result{Name: "scale", Seed: o.Seed, Machine: bench.ThisMachine()}
	r.Add("switch.packets", "packets", float64(one.Packets), "of one switch in 2^30 ns", bench.Neither)
	for _, k := range []string{"disketch", "oblivious", "lds", "status"} {
		r.Add("switch.bytes_per_record."+k, "bytes", float64(one.Bytes[k]), "as it travels, at full rate", bench.Neither)
	}
	r.Add("switch.bytes_per_digest", "bytes", one.DigestBytes, "in full records", bench.Neither)
	for _, q := range qualities {
		r.Add("all."+q.metric, q.unit, q.of(&one.Whole), q.text, bench.Neither)
	}
	for _, s := range settings {
		c := one.Cuts[s.Budget]
		if c == nil {
			continue
		}
		name := fmt.Sprintf("budget%g.", s.Budget)
		r.Add(name+"bytes_per_record.disketch", "bytes", c.SketchBytes, "of rounded cells", bench.Neither)
		r.Add(name+"bytes_per_second", "bytes/s", c.Bytes, "of one switch", bench.Neither)
		for _, q := range qualities {
			r.Add(name+q.metric, q.unit, q.of(&c.Quality), q.text, bench.Neither)
		}
	}
	names := []string{"all", "default", "quarter"}
	for i, n := range needs(one) {
		name := fmt.Sprintf("switches%d.%s.", n.Switches, names[i%len(names)])
		for _, row := range []struct {
			metric, unit string
			value        float64
		}{
			{"digests_per_second", "digests/s", n.Digests}, {"records_per_second", "records/s", n.Records}, {"bytes_per_second", "bytes/s", n.Bytes},
			{"disk_per_day", "bytes", n.DiskPerDay}, {"kept_100_slices", "bytes", n.Kept}, {"servers", "servers", float64(n.Servers)}, {"regions", "regions", float64(n.Regions)},
			{"collectors", "collectors", float64(n.Collectors)},
		} {
			r.Add(name+row.metric, row.unit, row.value, n.Setting, bench.Neither)
		}
	}
	return r, nil
}
