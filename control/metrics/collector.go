package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
)

// Switch is what metrics need of a switch. Its method is called by many
// goroutines at once.
type Switch interface {
	Report() *api.ReportResponse
}

// Collector shows a switch's report to Prometheus: weir_port_*, weir_stage_*,
// weir_worker_* of what every switch has, and weir_STAGE_* of a stage's own counters.
// It reads the switch only when scraped, at no cost per packet.
type Collector struct{ sw Switch }

// NewCollector returns the collector of a switch.
func NewCollector(sw Switch) *Collector { return &Collector{sw} }

// Describe implements prometheus.Collector. Which metrics there are depends on the
// graph and on what happened, so nothing is promised.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	r := c.sw.Report()
	e := emitter{ch, map[string]*family{}}
	defer e.others()
	e.gauge("switch_info", "the switch, always 1", 1, "switch", r.Name, "id", fmt.Sprint(r.Id))
	for _, p := range r.Ports {
		e.port(p)
	}
	for _, s := range r.Stages {
		e.counter("stage_packets_total", "living packets that entered the stage", s.Packets, "stage", s.Name)
		e.counter("stage_batches_total", "batches that entered the stage", s.Batches, "stage", s.Name)
		e.counter("stage_dropped_packets_total", "packets that the stage dropped", s.Dropped, "stage", s.Name)
		e.counter("stage_copied_packets_total", "copies that the stage made", s.Copied, "stage", s.Name)
		e.counter("stage_sampled_packets_total", "packets in the batches whose time was taken", s.SampledPackets, "stage", s.Name)
		e.send("stage_sampled_seconds_total", "time that these took in the stage", float64(s.SampledNs)/1e9, prometheus.CounterValue, "stage", s.Name)
	}
	for _, w := range r.Workers {
		id := fmt.Sprint(w.Id)
		e.counter("worker_packets_total", "packets that the worker ran through the graph", w.Packets, "worker", id)
		e.counter("worker_batches_total", "batches that the worker ran through the graph", w.Batches, "worker", id)
		e.counter("worker_rounds_total", "rounds over all queues", w.Rounds, "worker", id)
		e.counter("worker_sleeps_total", "times the worker slept", w.Sleeps, "worker", id)
		e.send("worker_cpu_seconds_total", "processor time that the worker's thread has used", float64(w.CpuNs)/1e9, prometheus.CounterValue, "worker", id)
		e.counter("worker_handed_over_packets_total", "packets given to other workers", w.HandedOver, "worker", id)
		e.counter("worker_steered_packets_total", "packets given to the worker that has their connection, which are among those given to other workers", w.Steered, "worker", id)
		e.counter("worker_taken_over_packets_total", "packets taken from other workers", w.TakenOver, "worker", id)
		e.gauge("worker_free_frames", "frames in the worker's cache", float64(w.FreeFrames), "worker", id)
	}
	e.gauge("pool_frames", "frames of the packet pool", float64(r.Frames.GetTotal()))
	e.counter("pool_faults_total", "wrong changes of a frame's owner that the audit refused", r.Frames.GetFaults())
	for _, m := range r.Metrics {
		e.own(m)
	}
}

// emitter sends metrics with the prefix of all.
type emitter struct {
	ch       chan<- prometheus.Metric
	families map[string]*family // by name
}

// family is a metric by name, with what is beyond mostSeries of it.
type family struct {
	series  int
	left    int // series of these that were not sent
	help    string
	labels  []string // names
	sum     float64
	counter bool
}

const (
	// mostSeries of a metric are sent: a switch may have thousands of ports of guests and of rules. What is beyond is one series of its own.
	mostSeries = 1000
	// othersValue is the label of that one, which no port and no rule is called.
	othersValue = "(others)"
)

// beyond notes a series of a metric of which there are enough already; false: it is to be sent.
func (e emitter) beyond(name, help string, v float64, kind prometheus.ValueType, labels []string) bool {
	f := e.families[name]
	if f == nil {
		f = &family{help: help, labels: labels, counter: kind == prometheus.CounterValue}
		e.families[name] = f
	}
	if f.series < mostSeries {
		f.series++
		return false
	}
	f.left++
	f.sum += v
	return true
}

// others sends what was beyond: of counters the sum, and of all how many there were.
func (e emitter) others() {
	for _, name := range slices.Sorted(maps.Keys(e.families)) {
		f := e.families[name]
		if f.left == 0 {
			continue
		}
		if f.counter {
			values := slices.Repeat([]string{othersValue}, len(f.labels))
			e.ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("weir_"+name, f.help, f.labels, nil), prometheus.CounterValue, f.sum, values...)
		}
		e.ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("weir_metrics_others", "series of a metric that are not shown one by one: of a counter, "+othersValue+" is their sum", []string{"metric"}, nil),
			prometheus.GaugeValue, float64(f.left), "weir_"+name)
	}
}

func (e emitter) port(p *api.Port) {
	up := 0.
	if p.Up {
		up = 1
	}
	e.gauge("port_up", "whether the link is up", up, "port", p.Name)
	e.gauge("port_mtu_bytes", "the longest packet behind the Ethernet header", float64(p.Mtu), "port", p.Name)
	e.gauge("port_info", "what was granted, always 1", 1, "port", p.Name, "interface", p.Interface, "driver", p.Driver, "mode", p.Mode, "reception", p.Reception)
	for _, why := range p.Fallbacks {
		e.gauge("port_fallback_info", "why a port has less than is tried first, a sentence, always 1", 1, "port", p.Name, "why", why)
	}
	for _, s := range p.Settings {
		e.gauge("port_setting_info", "a setting of the interface that the port has changed, always 1", 1, "port", p.Name, "setting", s.Name, "was", s.Was, "is", s.Is)
	}
	for _, s := range p.Refused {
		e.gauge("port_refused_setting_info", "a setting of the interface that the port needs and could not change, always 1", 1, "port", p.Name, "setting", s.Name, "why", s.Why)
	}
	e.counter("port_rebuilds_total", "times the port came back after its interface had vanished", p.Rebuilds, "port", p.Name)
	e.counter("port_link_changes_total", "times the link went up or down", p.LinkChanges, "port", p.Name)
	e.counter("port_received_packets_total", "packets that arrived at the port", p.Received, "port", p.Name)
	e.counter("port_received_bytes_total", "bytes of these, without FCS", p.ReceivedBytes, "port", p.Name)
	e.counter("port_forwarded_packets_total", "packets that arrived at the port and were forwarded", p.Forwarded, "port", p.Name)
	e.counter("port_consumed_packets_total", "packets that arrived at the port and were for the switch itself, or waited for a neighbour, as copies of which they went on", p.Consumed, "port", p.Name)
	e.counter("port_transmitted_packets_total", "packets that left by the port", p.Transmitted, "port", p.Name)
	e.counter("port_transmitted_bytes_total", "bytes of these, without FCS", p.TransmittedBytes, "port", p.Name)
	e.counter("port_copied_packets_total", "copies made of packets that arrived at the port", p.Copies.GetReceived(), "port", p.Name)
	e.counter("port_forwarded_copies_total", "copies of these that were forwarded", p.Copies.GetForwarded(), "port", p.Name)
	for _, reason := range slices.Sorted(maps.Keys(p.Dropped)) {
		e.counter("port_dropped_packets_total", "packets that arrived at the port and were dropped, by reason", p.Dropped[reason], "port", p.Name, "reason", reason)
	}
	for _, reason := range slices.Sorted(maps.Keys(p.Copies.GetDropped())) {
		e.counter("port_dropped_copies_total", "copies that were dropped, by reason", p.Copies.Dropped[reason], "port", p.Name, "reason", reason)
	}
	losses := control.Losses(p)
	for _, reason := range slices.Sorted(maps.Keys(losses)) {
		e.counter("port_lost_packets_total", "packets lost outside the workers' sight, by reason", losses[reason], "port", p.Name, "reason", reason)
	}
	e.counter("port_left_packets_total", "packets left to the kernel, by reason", p.Kept, "port", p.Name, "reason", "kept")
	e.counter("port_left_packets_total", "packets left to the kernel, by reason", p.NoSocket, "port", p.Name, "reason", "no_socket")
	e.counter("port_ring_faults_total", "faults that broke a ring of a port in shared memory, and cost the connection to its other end", p.RingFaults, "port", p.Name)
	for _, fault := range slices.Sorted(maps.Keys(p.Faults)) {
		e.counter("port_faults_total", "what was refused of the rings of a port in shared memory, by fault: each cost a packet, or the connection", p.Faults[fault], "port", p.Name, "fault", fault)
	}
	for _, k := range p.Classes {
		e.class(p.Name, k)
	}
	e.counter("port_checksums_completed_total", "packets received with a partial checksum, which was completed", p.ChecksumsCompleted, "port", p.Name)
}

// class sends what became of the packets of a class at a port.
func (e emitter) class(port string, k *api.PortClass) {
	e.counter("port_class_packets_total", "packets of the class that were to leave by the port: those that were sent, dropped or left unsent, and those that wait", k.Packets, "port", port, "class", k.Name)
	e.counter("port_class_bytes_total", "bytes of these, without FCS", k.Bytes, "port", port, "class", k.Name)
	e.counter("port_class_sent_packets_total", "packets of the class that were given to the device", k.Sent, "port", port, "class", k.Name)
	e.counter("port_class_sent_bytes_total", "bytes of these, without FCS", k.SentBytes, "port", port, "class", k.Name)
	e.counter("port_class_dropped_packets_total", "packets that found no room in their class", k.Dropped, "port", port, "class", k.Name)
	e.counter("port_class_dropped_bytes_total", "bytes of these, without FCS", k.DroppedBytes, "port", port, "class", k.Name)
	e.counter("port_class_unsent_packets_total", "packets that waited in the class when the port closed, or got other classes", k.Unsent, "port", port, "class", k.Name)
	e.gauge("port_class_depth_packets", "packets of the class that wait", float64(k.Depth), "port", port, "class", k.Name)
	e.gauge("port_class_depth_bytes", "bytes of these, without FCS", float64(k.DepthBytes), "port", port, "class", k.Name)
	e.gauge("port_class_room_frames", "frames of the class that wait at most, in all queues of the port", float64(k.Room), "port", port, "class", k.Name)
}

// own sends one of a stage's own counters.
func (e emitter) own(m *api.Metric) {
	kind := prometheus.CounterValue
	if m.Gauge {
		kind = prometheus.GaugeValue
	}
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		labels = append(labels, name, m.Labels[name])
	}
	e.send(strings.ReplaceAll(m.Stage, "-", "_")+"_"+m.Name, m.Help, m.Value, kind, labels...)
}

func (e emitter) counter(name, help string, n uint64, labels ...string) {
	e.send(name, help, float64(n), prometheus.CounterValue, labels...)
}

func (e emitter) gauge(name, help string, v float64, labels ...string) {
	e.send(name, help, v, prometheus.GaugeValue, labels...)
}

// send sends one value. labels are names and values in turn.
func (e emitter) send(name, help string, v float64, kind prometheus.ValueType, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names = append(names, labels[i])
		values = append(values, strings.ToValidUTF8(labels[i+1], "?"))
	}
	if len(names) > 0 && e.beyond(name, help, v, kind, names) {
		return
	}
	desc := prometheus.NewDesc("weir_"+name, help, names, nil)
	metric, err := prometheus.NewConstMetric(desc, kind, v, values...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err) // the scrape says so
	}
	e.ch <- metric
}
