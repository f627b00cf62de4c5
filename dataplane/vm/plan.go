package vm

// Plan is what one virtual machine does.
type Plan struct {
	// Modules are the kernel's modules to load, in this order, as names of files in the folder of modules.
	Modules []string
	// Veth makes pairs of veth in place of NICs.
	Veth bool
	// SoftTunnels has hosts compute the checksums within tunnels themselves.
	SoftTunnels bool
	Rows        []Row
	// End, if set, is what the machine does in place of rows.
	End *End
	// Logs has the logs of all switches on the console, also after tests that pass.
	Logs bool
}

// End is what one of two machines does that talk over one NIC each. The first one, 0, asks, and ends; the second one answers until it
// is ended. Their rows are named "guest 1" and "guest 2".
type End struct {
	Number int
	Bytes  int64 // that TCP carries in each direction
	// Migrate has the first machine make transfers until it is ended, in place of Restart and Reboot, while the second one moves.
	Migrate bool
}

// Row is a way to run ports, and the tests in it.
type Row struct {
	Name string
	// Bridge uses the kernel's bridge, in place of switches: the rig's own control.
	Bridge bool
	// Copy, Mode, FrameSize, Queues and Workers are the keys dataplane.copy, port.mode, dataplane.frame_size, port.queues and
	// workers.count; zero values leave the defaults.
	Copy, Mode                 string
	FrameSize, Queues, Workers int
	// Granted is what the mode in the switch's report of each port must begin with; empty: anything.
	Granted string
	Tests   []Test
	// Refuses are the tests that the driver, or the mode, is known not to do: there alone a refusal is right.
	Refuses []Test
	// Bytes is how many TCP carries in each direction, Packets how many numbered packets are sent in each.
	Bytes   int64
	Packets int
	// Flaps is how often a port's link goes down and up, and Resets how often its driver resets, under load.
	Flaps, Resets int
	// Reloads is how often Bond takes the bond out of the switch that runs and brings it back.
	Reloads int
}

// Test is a column of the table.
type Test string

// The tests. All but those of graphs run over the stage patch, or the bridge.
const (
	Ping    Test = "ping"    // of 64 to 1,500 bytes, both ways, IPv4 and IPv6
	VLAN    Test = "vlan"    // the same with a tag
	TCP     Test = "tcp"     // equal SHA-256, both ways, with the host driver's own offloads
	Tunnels Test = "tunnels" // TCP within VXLAN, Geneve, GRE and IP in IP
	Flows   Test = "flows"   // numbered packets of weir gen, counted by weir sink, both ways at the same time
	Jumbo   Test = "jumbo"   // MTU 9,000
	L2      Test = "l2"      // untagged at one side, a trunk at the other
	L3      Test = "l3"      // a router: IPv4 and IPv6
	Bond    Test = "bond"    // LACP with Linux's bonding, over two cables of which one is cut under load
	Overlay Test = "overlay" // a switch ends tunnels of Linux, VXLAN and Geneve over IPv4 and IPv6, in VLANs of its bridge
	IRB     Test = "irb"     // a bridge with a router between VLAN subinterfaces, of one tag and two
	PINT    Test = "pint"    // two switches with shims between them
	LDS     Test = "lds"     // two switches measure loss and delay of the cable between them
	Faults  Test = "faults"  // links that go down and up, and drivers that reset, under load, with the audit of frames
	Restart Test = "restart" // SIGTERM, and kill -9 with a restart, leave the settings of interfaces as they were; between two machines, the switch is killed and started during a transfer
	Reboot  Test = "reboot"  // the second of two machines is killed and started
	Migrate Test = "migrate" // the second of two machines moves to another QEMU and port during transfers
)

// Tests are all columns, in the table's order.
var Tests = []Test{Ping, VLAN, TCP, Tunnels, Flows, Jumbo, L2, L3, Overlay, IRB, Bond, PINT, LDS, Faults, Restart, Reboot, Migrate}

// Outcome is how a test ended.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // the driver refused an MTU, or Weir did not start; the text is theirs
	Failed  Outcome = "failed"
	// Begun is no end: the test waits for what its caller does now.
	Begun Outcome = "begun"
)

// Result is what became of a test in a row.
type Result struct {
	Row     string
	Test    Test
	Outcome Outcome
	Text    string  // why, if it is not ok; else figures
	Mode    string  // what the switch's report says of its first port
	Seconds float64 // that it took
}
