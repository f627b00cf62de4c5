package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// PintReport is what a switch with the stage pint says at its end, as far as
// the lab reads it.
type PintReport struct {
	Sink  bool `json:"sink"`
	Plans []struct {
		ID     uint16 `json:"id"`
		Digest string `json:"digest"`
	} `json:"plans"`
	Paths []struct {
		Value   string   `json:"value"`
		Flow    string   `json:"flow"`
		Path    []uint64 `json:"path"`
		Certain bool     `json:"certain"`
		Packets uint64   `json:"packets"`
		Digests int      `json:"digests"`
	} `json:"paths"`
	// Pools join all flows of a path.
	Pools []struct {
		Value    string   `json:"value"`
		Path     []uint64 `json:"path"`
		Hop      int      `json:"hop"`
		SwitchID uint64   `json:"switch_id"`
		Samples  uint64   `json:"samples"`
		Median   float64  `json:"median"`
		Low      float64  `json:"median_low"`
		High     float64  `json:"median_high"`
	} `json:"pools"`
	Measured []struct {
		Port    string  `json:"port"`
		Value   string  `json:"value"`
		Packets uint64  `json:"packets"`
		Median  float64 `json:"median"`
	} `json:"measured"`
}

// Decoded is what the sinks have decoded of the packets for one host, beside
// the truth: the path by the links, the latencies by the switches themselves.
type Decoded struct {
	Host  string `json:"host"`
	Flows int    `json:"flows"`   // with a digest, from hosts whose path is known
	Long  int    `json:"long"`    // of these, with digests of at least 60 packets
	Right int    `json:"decoded"` // of the long ones, certain and right
	Wrong int    `json:"wrong"`   // of all, certain and not right
	// Hops are the switches of the paths, each once.
	Hops []DecodedHop `json:"hops"`
}

// DecodedHop compares the median of a switch's latency, in nanoseconds, over the packets
// of all flows of a path. If several paths lead to the host by the switch, it is that of
// the most samples. Where other packets leave by the same port, the switch
// measured these too.
type DecodedHop struct {
	Switch   string  `json:"switch"`
	Samples  uint64  `json:"samples"`
	Decoded  float64 `json:"decoded_median_ns"`
	Low      float64 `json:"decoded_low_ns"`     // bounds, which hold with a probability of 1 - 1e-9
	High     float64 `json:"decoded_high_ns"`    // -1: none
	Measured float64 `json:"measured_median_ns"` // by the switch, of what left in the host's direction
}

// longFlow is how many packets a flow needs for its path to count as decodable.
const longFlow = 60

// decoded compares what the switches' reports say with the lab. It is nil if no
// switch has the stage pint.
func (c *Config) decoded(ends []SwitchEnd) []Decoded {
	reports := map[string]*SwitchReport{}
	found := false
	for _, e := range ends {
		if e.Report != nil {
			reports[e.Name] = e.Report
			found = found || e.Report.Pint != nil && e.Report.Pint.Sink
		}
	}
	if !found {
		return nil
	}
	var list []Decoded
	for i := range c.Hosts {
		if d := c.decodedTo(&c.Hosts[i], reports); d.Flows != 0 {
			list = append(list, d)
		}
	}
	return list
}

// planFaults says which switches have other plans of an id than the first one that has it: what
// they write into digests means something else.
func planFaults(ends []SwitchEnd) (faults []string) {
	type owner struct{ name, digest string }
	first := map[uint16]owner{}
	for _, e := range ends {
		if e.Report == nil || e.Report.Pint == nil {
			continue
		}
		for _, p := range e.Report.Pint.Plans {
			if o, known := first[p.ID]; !known {
				first[p.ID] = owner{e.Name, p.Digest}
			} else if o.digest != p.Digest {
				faults = append(faults, fmt.Sprintf("plan %d of %s (%s) is not that of %s (%s): give all switches the same file", p.ID, e.Name, p.Digest, o.name, o.digest))
			}
		}
	}
	return faults
}

// decodedTo is for the packets of one host.
func (c *Config) decodedTo(to *Host, reports map[string]*SwitchReport) Decoded {
	d := Decoded{Host: to.Name}
	hops := map[string]DecodedHop{} // by switch
	ports := map[string]string{}    // by switch: towards the host
	for _, sink := range slices.Sorted(maps.Keys(reports)) {
		p := reports[sink].Pint
		if p == nil {
			continue
		}
		ways := map[string][]step{} // by their switches
		for _, f := range p.Paths {
			steps := c.truth(f.Flow, to)
			if steps == nil || f.Value != "switch_id" || steps[len(steps)-1].name != sink {
				continue
			}
			right := slices.EqualFunc(f.Path, steps, func(id uint64, s step) bool { return reports[s.name] != nil && id == reports[s.name].ID })
			if right {
				ways[fmt.Sprint(f.Path)] = steps
			}
			d.Flows++
			if f.Certain && !right {
				d.Wrong++
			}
			if f.Packets >= longFlow && (f.Certain || f.Digests >= longFlow) {
				d.Long++
				if f.Certain && right {
					d.Right++
				}
			}
		}
		for _, h := range p.Pools {
			steps := ways[fmt.Sprint(h.Path)]
			if h.Value != "hop_latency" || h.Hop < 1 || h.Hop > len(steps) {
				continue
			}
			at := steps[h.Hop-1]
			if h.Samples > hops[at.name].Samples {
				hops[at.name] = DecodedHop{Switch: at.name, Samples: h.Samples, Decoded: h.Median, Low: h.Low, High: h.High}
				ports[at.name] = at.port
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(hops)) {
		h := hops[name]
		if own := reports[name].Pint; own != nil {
			for _, m := range own.Measured {
				if m.Value == "hop_latency" && m.Port == ports[name] {
					h.Measured = m.Median
				}
			}
		}
		d.Hops = append(d.Hops, h)
	}
	return d
}

// step is a switch on a path, and the port by which the path leaves it.
type step struct{ name, port string }

// truth is the path of a flow from another host to the given one, by the links;
// nil if the flow is not of two hosts, or the links leave a choice.
func (c *Config) truth(flow string, to *Host) []step {
	from, rest, ok := strings.Cut(flow, " > ")
	dst, _, isIP := strings.Cut(rest, " protocol ")
	if !ok || !isIP || c.hostOf(dst) != to {
		return nil
	}
	source := c.hostOf(from)
	if source == nil || source == to {
		return nil
	}
	var all [][]step
	c.walk(source.Name, to.Name, map[string]bool{source.Name: true}, nil, &all)
	if len(all) != 1 {
		return nil
	}
	return all[0]
}

// hostOf finds the host that has the address of "address:port".
func (c *Config) hostOf(text string) *Host {
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil
	}
	for i := range c.Hosts {
		for _, p := range c.Hosts[i].prefixes() {
			if p.Addr() == ap.Addr() {
				return &c.Hosts[i]
			}
		}
	}
	return nil
}

// Path names the switches between two hosts, by the links; nil: these leave a choice, or do not join the hosts.
func (c *Config) Path(from, to *Host) (names []string) {
	var all [][]step
	if c.walk(from.Name, to.Name, map[string]bool{from.Name: true}, nil, &all); len(all) != 1 {
		return nil
	}
	for _, s := range all[0] {
		names = append(names, s.name)
	}
	return names
}

// walk collects the ways over links that pass no node twice, as far as there are
// two. Bridges are passed and not named.
func (c *Config) walk(at, to string, been map[string]bool, path []step, all *[][]step) {
	if at == to {
		*all = append(*all, slices.Clone(path))
		return
	}
	for _, l := range c.Links {
		for end := range l.Endpoints {
			node, port := splitEndpoint(l.Endpoints[end])
			next, _ := splitEndpoint(l.Endpoints[1-end])
			if node != at || been[next] || len(*all) > 1 || c.host(next) != nil && next != to {
				continue
			}
			been[next] = true
			way := path
			if slices.ContainsFunc(c.Switches, func(s Switch) bool { return s.Name == at }) {
				way = append(path[:len(path):len(path)], step{at, port})
			}
			c.walk(next, to, been, way, all)
			been[next] = false
		}
	}
}
