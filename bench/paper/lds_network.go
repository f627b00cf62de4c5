package paper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// A network of leaves and spines, each leaf joined to each spine, with hosts of two tenants behind each leaf. Switches run the
// stages of live ones; links have delays and losses of their own, so that the ways of ECMP between two leaves differ.
const (
	ldsLeaves, ldsSpines = 4, 4
	ldsTenants           = 2
	ldsNetworkBits       = 28 // intervals of 268 ms
	ldsNetworkBegin      = int64(40) << ldsNetworkBits
)

// ldsNetwork is the network with its truth.
type ldsNetwork struct {
	network *netsim.Network
	frames  *packet.Cache
	modules [ldsLeaves][]*lds.Module
	names   []string
	store   *store.Store
	seed    uint64
	flows   []*ldsNetworkFlow
	entered func(packets int) // called as a packet enters, with how many have; nil: nothing is
	errs    []error
}

// ldsNetworkFlow is a flow between two leaves, and what became of its packets between the measurement points.
type ldsNetworkFlow struct {
	key             query.Key
	from, to        int
	packets, lost   int
	next, gap       int64
	sent, delivered int
	sum             float64
	delays          []float64
	spines          [ldsSpines]int // packets by the spine that they were sent to
	frame           []byte
}

// ldsPrefix is a tenant's network behind a leaf.
func ldsPrefix(tenant, leaf int) string { return fmt.Sprintf("10.%d.%d.0/24", 11+tenant, leaf+1) }

// Addresses of the link between a leaf and a spine.
func ldsLink(leaf, spine int) (ofLeaf, ofSpine string) {
	return fmt.Sprintf("172.16.%d.%d", spine, 4*leaf+1), fmt.Sprintf("172.16.%d.%d", spine, 4*leaf+2)
}

func ldsMAC(id uint32, port int) string {
	m := l3.DefaultMAC(id, uint16(port))
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

const ldsHostMAC = "02:aa:00:00:00:01"

// leafSwitch is a leaf: port 0 leads to its hosts, 1 to ldsSpines to the spines.
func leafSwitch(leaf int, family hash.Family) netsim.Switch {
	ports, ups := []string{"host"}, []string{}
	router := l3.DefaultConfig()
	host := l3.Interface{Port: "host"}
	for tenant := range ldsTenants {
		host.Addresses = append(host.Addresses, fmt.Sprintf("10.%d.%d.1/24", 11+tenant, leaf+1))
		router.Neighbours = append(router.Neighbours, l3.Neighbour{Address: fmt.Sprintf("10.%d.%d.2", 11+tenant, leaf+1), MAC: ldsHostMAC, Port: "host"})
	}
	router.Interfaces = append(router.Interfaces, host)
	var via []string
	for spine := range ldsSpines {
		up := fmt.Sprint("up", spine+1)
		ports, ups = append(ports, up), append(ups, up)
		own, other := ldsLink(leaf, spine)
		router.Interfaces = append(router.Interfaces, l3.Interface{Port: up, Addresses: []string{own + "/30"}})
		router.Neighbours = append(router.Neighbours, l3.Neighbour{Address: other, MAC: ldsMAC(spineID(spine), leaf), Port: up})
		via = append(via, other)
	}
	for tenant := range ldsTenants {
		for other := range ldsLeaves {
			if other != leaf {
				router.Routes = append(router.Routes, l3.Route{Prefix: ldsPrefix(tenant, other), Via: via})
			}
		}
	}
	points := lds.DefaultConfig()
	points.Ports, points.Edges, points.IntervalBit, points.IntervalBits = ups, true, true, ldsNetworkBits
	points.Rows, points.ClassColumns, points.Virtual, points.Samples, points.LostFlows = 4, 2048, 8, 128, 50
	digests := pint.DefaultConfig()
	digests.Edge, digests.IntervalBits = []string{"host"}, ldsNetworkBits
	in, out := points, points
	return netsim.Switch{ID: leafID(leaf), Hash: family, Ports: ports, Graph: []string{"parse", "lds_ingress", "l3", "pint", "lds_egress"},
		Stages: map[string]any{"l3": &router, "pint": &digests, "lds_ingress": &in, "lds_egress": &out}}
}

func leafID(leaf int) uint32   { return uint32(1 + leaf) }
func spineID(spine int) uint32 { return uint32(101 + spine) }

func spineSwitch(spine int, family hash.Family) netsim.Switch {
	router := l3.DefaultConfig()
	var ports []string
	for leaf := range ldsLeaves {
		port := fmt.Sprint("l", leaf+1)
		ports = append(ports, port)
		other, own := ldsLink(leaf, spine)
		router.Interfaces = append(router.Interfaces, l3.Interface{Port: port, Addresses: []string{own + "/30"}})
		router.Neighbours = append(router.Neighbours, l3.Neighbour{Address: other, MAC: ldsMAC(leafID(leaf), 1+spine), Port: port})
		for tenant := range ldsTenants {
			router.Routes = append(router.Routes, l3.Route{Prefix: ldsPrefix(tenant, leaf), Via: []string{other}})
		}
	}
	digests := pint.DefaultConfig()
	digests.IntervalBits = ldsNetworkBits
	return netsim.Switch{ID: spineID(spine), Hash: family, Ports: ports, Graph: []string{"parse", "l3", "pint"},
		Stages: map[string]any{"l3": &router, "pint": &digests}}
}

// newLDSNetwork makes a network whose switches are as change leaves them; nil: as they are.
func newLDSNetwork(seed uint64, family hash.Family, flowsPerPair, packets int, change func(s *netsim.Switch)) (*ldsNetwork, error) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1 << 14, FrameSize: 2048})
	if err != nil {
		return nil, err
	}
	n := &ldsNetwork{frames: pool.NewCache(), seed: seed, store: &store.Store{}}
	var switches []netsim.Switch
	for leaf := range ldsLeaves {
		switches = append(switches, leafSwitch(leaf, family))
		n.names = append(n.names, fmt.Sprint("leaf", leaf+1))
	}
	var cables []netsim.Cable
	for spine := range ldsSpines {
		switches = append(switches, spineSwitch(spine, family))
		for leaf := range ldsLeaves {
			cables = append(cables, netsim.Cable{{Switch: leaf, Port: 1 + spine}, {Switch: ldsLeaves + spine, Port: leaf}})
		}
	}
	for i := range switches {
		if change != nil {
			change(&switches[i])
		}
	}
	if n.network, err = netsim.NewNetwork(switches, cables, n.frames); err != nil {
		return nil, err
	}
	n.network.Link = n.link
	// Not the same everywhere, so that a delay taken for another shows.
	n.network.Delay = func(sw int) int64 { return 1000 * int64(1+sw) }
	for leaf := range ldsLeaves {
		for _, m := range n.network.Chain(leaf) {
			if p, ok := m.Module.(*lds.Module); ok {
				n.modules[leaf] = append(n.modules[leaf], p)
			}
		}
		n.network.OnTick(leaf, func(now int64) { n.collect(leaf, now, false) })
	}
	n.addFlows(flowsPerPair, packets)
	return n, nil
}

// addFlows adds flows between all pairs of leaves, for each tenant. Their packets are spread over about 4 s.
func (n *ldsNetwork) addFlows(perPair, packets int) {
	const begin = ldsNetworkBegin
	n.network.Tick(begin - 1<<ldsNetworkBits) // the first interval is a whole one
	for tenant := range ldsTenants {
		for from := range ldsLeaves {
			for to := range ldsLeaves {
				for range perPair {
					if from == to {
						continue
					}
					number := len(n.flows)
					h := hash.Uint64x2(n.seed, ldsNetworkSeed, uint64(number))
					f := &ldsNetworkFlow{from: from, to: to, packets: packets, gap: 4e9 / int64(packets), next: begin + int64(h%1e7)}
					src, dst := [4]byte{10, byte(11 + tenant), byte(from + 1), byte(2 + h>>32%200)}, [4]byte{10, byte(11 + tenant), byte(to + 1), 2}
					f.key = query.Key{Version: 4, Proto: 17, SrcPort: uint16(1000 + number), DstPort: uint16(h >> 48)}
					copy(f.key.Src[:], src[:])
					copy(f.key.Dst[:], dst[:])
					f.frame = make([]byte, 120)
					m := l3.DefaultMAC(leafID(from), 0)
					copy(f.frame, m[:])
					copy(f.frame[6:], []byte{2, 0xaa, 0, 0, 0, 9, 8, 0})
					binary.BigEndian.PutUint16(f.frame[34:], f.key.SrcPort)
					binary.BigEndian.PutUint16(f.frame[36:], f.key.DstPort)
					binary.BigEndian.PutUint16(f.frame[38:], 120-34)
					n.flows = append(n.flows, f)
				}
			}
		}
	}
}

// link delays packets by 2 to 15 ms, which differ by way and by up to a fifth from packet to packet, with a queue
// on top of it that fills and drains within 100 ms. Two ways lose packets.
func (n *ldsNetwork) link(from netsim.End, p *packet.Packet, now int64) (int64, bool) {
	leaf, spine, down := from.Switch, from.Port-1, 0
	if from.Switch >= ldsLeaves {
		leaf, spine, down = from.Port, from.Switch-ldsLeaves, 1
	}
	f := n.flows[p.SrcPort-1000]
	if down == 0 {
		f.spines[spine]++
	}
	way := uint64(leaf*ldsSpines+spine)*2 + uint64(down)
	draw := func(purpose uint64) float64 {
		return float64(hash.Uint64x2(n.seed^way<<32, purpose, uint64(p.SrcPort)<<32|uint64(f.sent))>>11) / (1 << 53)
	}
	if (down == 0 && leaf == 0 && spine == 1 || down == 1 && leaf == 3 && spine == 2) && draw(1) < 0.002 {
		f.lost++
		return 0, true
	}
	base := 2e6 * float64(1+spine) * (1 + 0.2*float64(leaf))
	queue := 1e6 * (1 + math.Sin(2*math.Pi*float64(now%1e8)/1e8+float64(way)))
	return int64(base*(0.8+0.4*draw(2)) + queue), false
}

// collect takes the records of a leaf.
func (n *ldsNetwork) collect(leaf int, now int64, last bool) {
	for _, m := range n.modules[leaf] {
		m.Collect(now, last, func(h *record.Header, body func([]byte) ([]byte, error)) {
			h.Switch, h.Name, h.Hash = leafID(leaf), n.names[leaf], hash.XX
			b, err := record.Append(nil, h, body)
			if err != nil {
				n.errs = append(n.errs, err)
				return
			}
			n.store.AddBytes(b)
		})
	}
}

// run carries all packets.
func (n *ldsNetwork) run() error {
	b := packet.NewBatch(n.frames, packet.BatchSize)
	entered := 0
	enter := func() (netsim.End, packet.Packet, bool) {
		var first *ldsNetworkFlow
		for _, f := range n.flows {
			if f.packets > 0 && (first == nil || f.next < first.next) {
				first = f
			}
		}
		if first == nil {
			return netsim.End{}, packet.Packet{}, false
		}
		if entered++; n.entered != nil {
			n.entered(entered)
		}
		addr, ok := n.frames.AllocOne()
		if !ok {
			n.errs = append(n.errs, fmt.Errorf("no frame is free"))
			return netsim.End{}, packet.Packet{}, false
		}
		p := packet.Packet{Addr: addr + 256, Len: 120, WireLen: 120, Arrival: first.next}
		data := b.Mem[p.Addr:][:120]
		copy(data, first.frame)
		(*header.IPv4)(data[14:]).Init([4]byte(first.key.Src[:4]), [4]byte(first.key.Dst[:4]), 17, 64, 0, uint16(first.packets), 120-14)
		first.packets--
		first.sent++
		first.next += first.gap
		return netsim.End{Switch: first.from, Port: 0}, p, true
	}
	end := int64(0)
	n.network.CarryInOrder(enter, func(at netsim.End, p *packet.Packet, now int64) {
		f := n.flows[p.SrcPort-1000]
		if p.Reason == 0 {
			d := float64(now - p.Arrival - n.network.Delay(f.from))
			f.delivered++
			f.sum += d
			f.delays = append(f.delays, d)
		}
		end = max(end, now)
		n.frames.FreePacket(p)
	})
	for range 4 { // the last intervals are whole ones too
		end += 1 << ldsNetworkBits
		n.network.Tick(end)
	}
	n.network.Finish(end)
	for leaf := range ldsLeaves {
		n.collect(leaf, end, true)
	}
	for _, f := range n.flows {
		if f.delivered+f.lost != f.sent {
			n.errs = append(n.errs, fmt.Errorf("flow %s: %d sent, %d delivered, %d lost", query.FormatKey(f.key), f.sent, f.delivered, f.lost))
		}
	}
	return errors.Join(n.errs...)
}

// ldsNetworkFigure measures a network of 4 leaves and 4 spines, with ECMP: delay and loss of each flow between all
// pairs of leaves, by the classes that the leaves find in their routing tables. Flows of two tenants send 1,000 packets each; two of
// the ways lose 0.2 % of their packets. refused_unlossy leaves out the classes that lost packets: where there is loss, its cells are
// to be refused. wrong_losses are flows whose losses are not exact, by cells, wrong_named_losses by the names of lost flows.
func ldsNetworkFigure(ctx context.Context, o Options) ([]Row, error) {
	runs := 5
	if o.Quick {
		runs = 1
	}
	var relative, tails sample
	outside, unnamed := 0, 0
	refused, cells, refusedClean, cellsClean, wrong, flows, lost := 0, 0, 0, 0, 0, 0, 0
	for run := range runs {
		n, err := newLDSNetwork(hash.Uint64x2(o.Seed, ldsNetworkSeed, uint64(run)), hash.XX, 4, 1000, nil)
		if err != nil {
			return nil, err
		}
		if err := n.run(); err != nil {
			return nil, err
		}
		e := &query.Engine{Store: n.store}
		for from := range ldsLeaves {
			for to := range ldsLeaves {
				if from == to {
					continue
				}
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				var keys []query.Key
				var of []*ldsNetworkFlow
				lossy := 0
				for _, f := range n.flows {
					if f.from == from && f.to == to {
						keys, of, lossy = append(keys, f.key), append(of, f), lossy+f.lost
					}
				}
				list, total, err := e.BetweenFlows(query.Place{Switch: leafID(from), Port: -1}, query.Place{Switch: leafID(to), Port: -1}, keys)
				if err != nil {
					return nil, err
				}
				named := map[string]float64{}
				for _, l := range total.LostFlows {
					named[l.Flow] = float64(l.Lost)
				}
				var delays []float64
				refused, cells, lost = refused+total.Refused, cells+total.Cells, lost+lossy
				if lossy == 0 {
					refusedClean, cellsClean = refusedClean+total.Refused, cellsClean+total.Cells
				}
				for i, f := range of {
					flows++
					if !total.AllNamed || named[list[i].Flow] != float64(f.lost) {
						unnamed++
					}
					if !list[i].HasLoss || list[i].Lost != float64(f.lost) {
						wrong++
					}
					mean, err := f.sum/float64(f.delivered), math.Inf(1)
					if list[i].HasDelay {
						err = math.Abs(list[i].Delay.Value-mean) / mean
					}
					relative = append(relative, err)
					delays = append(delays, f.delays...)
				}
				slices.Sort(delays)
				p99 := delays[int(0.99*float64(len(delays)))]
				for _, q := range total.Quantiles {
					if q.Rank == 0.99 {
						tails = append(tails, math.Abs(q.Value-p99)/p99)
						if q.Low > p99 || q.High < p99 && !q.Open {
							outside++
						}
					}
				}
			}
		}
	}
	slices.Sort(relative)
	slices.Sort(tails)
	source := fmt.Sprintf("%d runs, %d flows of 1,000 packets between 4 leaves over 4 spines, 2,048 x 4 cells per class and k = 8, %d packets lost", runs, flows, lost)
	var t table
	t.add("refused_cells", "ratio", float64(refused)/float64(cells), source, "lower")
	t.add("refused_cells.lossless", "ratio", float64(refusedClean)/float64(max(cellsClean, 1)), source, "lower")
	t.add("median_error", "ratio", relative.quantile(0.5), source, "lower")
	t.add("worst_error", "ratio", relative[len(relative)-1], source, "lower")
	samples := fmt.Sprintf("%s; 128 samples of a class in 268 ms at most, %d bytes", source, 128*20)
	t.add("p99_median_error", "ratio", tails.quantile(0.5), samples, "lower")
	t.add("p99_worst_error", "ratio", tails[len(tails)-1], samples, "lower")
	t.add("p99_outside_bounds", "ratio", float64(outside)/float64(len(tails)), samples+"; confidence 0.95", "lower")
	t.add("wrong_named_losses", "flows", float64(unnamed), source+"; by name, with room for 50 flows of a class that lose packets in 268 ms", "lower")
	t.add("wrong_losses", "flows", float64(wrong), source, "lower")
	return t, nil
}
