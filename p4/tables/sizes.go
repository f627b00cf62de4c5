package tables

// What the program has room for: p4/include/sizes.p4 and telemetry.p4, to which a
// test compares.
const (
	// maxPorts is how many ports a switch has.
	maxPorts = 64
	// DefaultCPUPort is the number of the port to the control plane where nothing else
	// is said: the highest one of BMv2 that carries packets.
	DefaultCPUPort = 510

	cpuSession = 1 // of the clones to the CPU port

	maxStations    = 16384
	maxRoutes      = 4096 // of each IP version
	maxNextHops    = 1024
	maxVLANMembers = 4096
	maxFloods      = 1024

	digestBits   = 16
	maxSets      = 8
	codePartBits = 16 // bits behind the leading one that the program looks at

	maxFragments          = 2
	maxFragmentColumnBits = 15

	maxPoints        = 4 // on either side
	pointRows        = 4
	maxLDSColumnBits = 10
)

// The controls of the program, as their tables and registers are named.
const (
	parseControl      = "ingress.derive"
	obliviousControl  = "ingress.oblivious_ingress"
	ldsIngressControl = "ingress.lds_ingress.side"
	forwardControl    = "ingress.forward"
	patchControl      = "ingress.forward.patch"
	l2Control         = "ingress.forward.l2"
	l2LeaveControl    = "egress.l2_leave"
	l3Control         = "ingress.forward.l3"
	pintControl       = "egress.pint_egress"
	disketchControl   = "egress.disketch_egress"
	ldsEgressControl  = "egress.lds_egress.side"

	stationDigest = "station_t"
)

// The reasons for dropping that tables name (p4/include/types.p4).
const (
	reasonMulticast = 12
	reasonMartian   = 13
)
