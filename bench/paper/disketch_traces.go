package paper

import (
	"os"
	"path/filepath"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/workload"
)

// dsShrink is by how much quick runs shrink the synthetic trace and, so that
// cells are as crowded, all memories.
func (o Options) dsShrink() int {
	if o.Quick {
		return 10
	}
	return 1
}

// dsSynthetic is a trace of the paper's scale: 5 s, 2 million packets, 200,000 flows.
func dsSynthetic(o Options) (*workload.Trace, error) {
	return workload.Synthetic{Packets: 2_000_000 / o.dsShrink(), Flows: 200_000 / o.dsShrink(), Seconds: 5, Seed: o.Seed}.Trace()
}

// dsRealmix is the capture of the shared data; nil: it is not there.
func dsRealmix(o Options) (*workload.Trace, error) {
	data := o.Data
	if data == "" {
		data = netsim.DataDir()
	}
	file := filepath.Join(data, "traces", "realmix-snap128.pcap.gz")
	if _, err := os.Stat(file); err != nil {
		return nil, nil
	}
	return workload.Capture(file, o.Seed)
}

// describe adds what a trace is.
func (t *table) describe(name string, tr *dsTraffic) {
	t.add(name+".packets", "packets", float64(tr.packets), tr.trace+"; those between different hosts", "neither")
	t.add(name+".flows", "flows", float64(len(tr.flows)), "the same", "neither")
}
