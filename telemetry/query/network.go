package query

import "github.com/weirswitch/weir/telemetry/status"

// Network is what the switches say of themselves, with the links between them.
// Rates are means over the statuses of the window; where there is but one, they are
// not known. Basis counts statuses.
// A Series of it is of one switch, or one port: see Numbers.
type Network struct {
	Basis
	Switches []NetworkSwitch `json:"switches" rows:""`
	Links    []NetworkLink   `json:"links"`
	// More switches, and MoreLinks, were left out by the question's limit, which without one is none.
	More      int `json:"more,omitempty"`
	MoreLinks int `json:"more_links,omitempty"`
}

// How a switch is.
const (
	HealthOK      = "ok"
	HealthWarning = "warning" // it says so itself, see NetworkSwitch.Faults
	HealthSilent  = "silent"  // nothing was heard of it for longer than silence
)

// NetworkSwitch is one switch. Fields behind HasStatus are of its last status of the
// window, unless they say otherwise.
type NetworkSwitch struct {
	Switch uint32 `json:"switch" column:"switch_number"`
	Name   string `json:"name" column:"switch"`
	Health string `json:"health"`
	// Faults say in clauses why Health is not "ok".
	Faults []string `json:"faults"`
	// LastHeardNs is when it made its newest record of any kind, in ns of CLOCK_TAI, and
	// AgeNs how long before the window's end that was. 0 and 0: it was never heard of.
	LastHeardNs int64 `json:"last_heard_ns" unit:"ns of CLOCK_TAI"`
	AgeNs       int64 `json:"age_ns" unit:"ns"`

	// HasStatus: there was a status in the window.
	HasStatus bool   `json:"has_status"`
	Statuses  int    `json:"statuses" unit:"statuses"`       // of the window
	SpanNs    int64  `json:"span_ns" unit:"ns"`              // that rates are over
	BootNs    int64  `json:"boot_ns" unit:"ns of CLOCK_TAI"` // when it began
	Restarts  int    `json:"restarts" unit:"restarts"`       // in the window
	Program   string `json:"program"`                        // version
	// Epochs, Overruns and Missed packets are of all measurements, in the window;
	// Measurements has them one by one.
	Epochs       uint64               `json:"epochs" unit:"epochs"`
	Overruns     uint64               `json:"overruns" unit:"epochs"`
	Missed       uint64               `json:"missed_packets" unit:"packets"`
	Measurements []status.Measurement `json:"measurements"`
	// Exports count records by kind since the switch began.
	Exports []status.Export `json:"exports"`
	Spool   status.Spool    `json:"spool"`
	Clock   NetworkClock    `json:"clock"`
	Ports   []NetworkPort   `json:"ports" rows:""`
	Workers []NetworkWorker `json:"workers"`
}

// NetworkClock is a switch's clock: as its kernel knows it, and as the delays to
// its neighbours say.
type NetworkClock struct {
	status.Clock
	// Offsets are how far the clock is ahead of those of neighbours, for links that have
	// measurement points of LDS at both ends.
	Offsets []NetworkOffset `json:"offsets"`
}

// NetworkOffset is how far a clock is ahead of a neighbour's.
type NetworkOffset struct {
	Neighbour string `json:"neighbour"` // name of the switch
	Clocks
}

// NetworkWorker is a worker in the window.
type NetworkWorker struct {
	ID   uint32 `json:"id"`
	Core int64  `json:"core"` // -1: not pinned
	// HasRates: there were two statuses to compare. CPU is the share of a processor that the
	// thread used, Busy the share of its rounds over the queues that found packets.
	HasRates  bool    `json:"has_rates"`
	CPU       float64 `json:"cpu"`
	Busy      float64 `json:"busy"`
	PacketsPS float64 `json:"packets_per_second"`
}

// NetworkPort is a port in the window.
type NetworkPort struct {
	Number    uint32 `json:"number" column:"port_number"` // from 0, as places name it
	Name      string `json:"name" column:"port"`
	Interface string `json:"interface"`
	Mode      string `json:"mode"` // all that was granted, in words
	Up        bool   `json:"up"`
	// Speed is that of the configured link, else the interface's, in bits per second;
	// 0: not known, and so are utilisations.
	Speed uint64 `json:"speed_bps" unit:"bits per second" null:"zero"`

	// HasRates: there were two statuses of one run to compare.
	HasRates bool `json:"has_rates"`
	Received Rate `json:"received" columns:"received_" null:"has_rates"`
	Sent     Rate `json:"sent" columns:"sent_" null:"has_rates"`
	// Backlog is how many frames wait to be sent, in the last status, and MostBacklog in that
	// in which it was longest, of up to mostStatuses of the window.
	Backlog     uint64 `json:"backlog" unit:"frames"`
	MostBacklog uint64 `json:"most_backlog" unit:"frames"`
	// Drops are by reason: of packets that arrived here, and of those lost at the port,
	// in the window where HasRates, else since the switch began. DropsPS is of all.
	Drops   []status.Drop `json:"drops"`
	DropsPS float64       `json:"drops_per_second" unit:"packets per second" null:"has_rates"`
}

// Rate is traffic in one direction.
type Rate struct {
	PacketsPS float64 `json:"packets_per_second" unit:"packets per second"`
	BitsPS    float64 `json:"bits_per_second" unit:"bits per second"` // of frames, without FCS
	// Utilisation is the share of the speed, with what each frame takes on the wire beside
	// itself (24 bytes); 0 where the speed is not known.
	Utilisation float64 `json:"utilisation" unit:"share of the speed" null:"speed_bps"`
}

// NetworkLink is a configured link.
type NetworkLink struct {
	Ends [2]NetworkEnd `json:"ends"`
	// Speed in bits per second; 0: not known.
	Speed uint64 `json:"speed_bps"`
	// Up: all ports of it say so.
	Up bool `json:"up"`
	// HasRates: an end is a switch whose rates are known. Rates are of what leaves Ends[0]
	// and Ends[1], as the sender counts it, else as the receiver.
	HasRates bool    `json:"has_rates"`
	Rates    [2]Rate `json:"rates"`
	// Backlogs are of the ends' ports, in frames.
	Backlogs [2]uint64 `json:"backlogs"`
	// Delays are of what leaves Ends[0] and Ends[1], in the newest seconds of the window.
	Delays [2]LinkDelay `json:"delays"`
}

// LinkDelay is the delay and the loss of one direction of a link, as the measurement points of LDS at its two ends say.
type LinkDelay struct {
	// HasDelay: both ends measure it, and a cell survived. Delay is the mean of all flows, with the difference of the two clocks in it.
	HasDelay bool    `json:"has_delay"`
	Delay    Bounded `json:"delay_ns" unit:"ns"`
	// HasLoss: both counted an interval whole, and not more arrived than had left. Lost is over these.
	HasLoss bool    `json:"has_loss"`
	Lost    float64 `json:"lost" unit:"packets"`
	// Why the delay is not known, or with it the loss; empty: both are, or nothing measures the link.
	Why string `json:"why,omitempty"`
}

// NetworkEnd is an end of a link: a port of a switch, or what is next to the
// network, such as a host.
type NetworkEnd struct {
	Name string `json:"name"` // of the switch or the host
	// HasSwitch: Name is a switch that was heard of, and Switch its number.
	HasSwitch bool   `json:"has_switch"`
	Switch    uint32 `json:"switch"`
	// Port is the port's name; Number its number, -1: it is not known.
	Port   string `json:"port"`
	Number int    `json:"number"`
}

// Link is a cable between two ports, as the collector's configuration says. An end is
// "SWITCH:PORT", by names, or the name of a host.
type Link struct {
	Ends  [2]string
	Speed uint64 // bits per second; 0: that of the ends' interfaces
}
