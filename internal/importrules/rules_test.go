package importrules

// layer says what a package of ours may import of ours. Patterns are paths
// below the module: "x" is the package x, "x/..." is x and all below it, "x/*"
// is what is directly below it. A package imports by the first layer that
// matches it.
type layer struct {
	pkg string
	may []string
	why string
}

// layers lists the vocabulary first and its users behind it.
var layers = []layer{
	// Leaves.
	{"pipeline/packet", nil, "everything on the packet path speaks it, so it may know nothing of them"},
	{"pipeline/clock", nil, "a clock knows nothing of who reads it"},
	{"pipeline/limiter", nil, "a token bucket knows nothing of what it limits"},
	{"pipeline/ring", nil, "a ring knows nothing of the values that pass from a worker to a goroutine"},
	{"pipeline/ipmatch", []string{"pipeline/header", "pipeline/packet"}, "what rules of stages match by is text and numbers"},
	{"pipeline/epoch", nil, "it knows nothing of the cells that pass from a worker to a goroutine"},
	{"pipeline/header", nil, "views over bytes serve stages, tests and tools"},
	{"dataplane/xsk", nil, "AF_XDP rings are read and tested against the kernel alone"},
	{"dataplane/nic", []string{"internal/socket"}, "settings of interfaces, for several callers; it names a switch that has one by its control socket alone"},
	{"dataplane/hostif", nil, "the kernel's routing is read alone; which router has it is the node's matter"},
	{"dataplane/xdp", []string{"dataplane/nic"}, "the redirect program is read and tested against the kernel alone"},
	{"dataplane/shmem", []string{"internal/printable"}, "it serves the protocols of shared memory, and knows none"},
	{"dataplane/shmem/shmemtest", nil, "tests of the protocols of shared memory use it"},
	{"dataplane/gso", []string{"dataplane/shmem", "pipeline/header"}, "segments are cut for rings, TAP interfaces and workers alike, mostly out of shared memory"},
	{"dataplane/virtio", []string{"dataplane/gso", "dataplane/shmem", "pipeline/header"}, "rings in a guest's memory are read and tested alone"},
	{"dataplane/memif", []string{"dataplane/shmem", "internal/printable", "internal/socket"}, "the protocol starts and stops rings, and knows no packet of ours"},
	{"dataplane/vhost/frontend", []string{"dataplane/shmem"}, "the other end of a device knows nothing of ours: it is a load, and a guest in tests"},
	{"dataplane/vhost", []string{"dataplane/gso", "dataplane/shmem", "dataplane/virtio", "internal/socket"}, "the protocol starts and stops rings, and knows no packet of ours"},
	{"dataplane/pcapfile", nil, "a file format knows nothing of its users"},
	{"dataplane/pcapfile/pcaptest", []string{"dataplane/pcapfile"}, "tests of several packages make and read captures"},
	{"dataplane/lab/netns", nil, "namespaces are the kernel's matter"},
	{"dataplane/lab/process", nil, "processes are the kernel's matter"},
	{"telemetry/hash", nil, "P4 programs have the same functions; nothing of Weir's may leak into them"},
	{"telemetry/record", []string{"telemetry/hash"}, "a query needs nothing but records, and a record nothing but its format"},
	{"internal/socket", nil, "the servers of control and of the collector may not know each other, and their sockets know neither"},
	{"internal/printable", nil, "one function makes foreign text safe for a terminal"},
	{"internal/hugepage", nil, "cells and tables get their memory by one function"},
	{"internal/plainjson", nil, "the messages of both APIs are written by one encoder"},
	{"internal/tomlfile", []string{"internal/printable"}, "files of all kinds are decoded by one strict decoder, which knows none of them"},
	{"internal/safefile", nil, "who may have written a file is checked in one place"},
	{"internal/keyfile", []string{"internal/safefile"}, "a network's key is read by switches and collectors, and leaves the package as bytes only"},
	{"internal/certs", []string{"internal/safefile"}, "the servers of control and of the collector may not know each other, and keep certificates alike"},
	{"examples/...", []string{"config", "examples/...", "node", "node/replay", "pipeline/...", "stages"}, "what a module outside this tree may do"},
	{"internal/plural", nil, "one function writes numbers of things"},
	{"internal/bitrate", nil, "labs and the command line read rates alike"},
	{"internal/s3test", []string{"internal/freeport"}, "the servers of tests have ports that no others have"},
	{"internal/...", nil, "checks of the tree must not depend on what they check"},

	{"telemetry/status", []string{"internal/printable"}, "what a switch says of itself is read without the switch"},

	// Packet path.
	{"pipeline", []string{"pipeline/packet", "pipeline/header", "telemetry/hash"},
		"stages depend on the graph's contract, so the graph must not depend on them, nor on I/O"},
	{"stages", []string{"stages/*", "pipeline", "pipeline/packet"}, "the one map from names to constructors"},
	{"stages/bond/lacp", nil, "a protocol as pure data: LACPDUs in, LACPDUs out"},
	{"stages/bond", []string{"pipeline/...", "stages/bond/lacp"}, "the stages of bonds, and the protocol that chooses members"},
	{"stages/l2/snooping", []string{"pipeline/header"}, "protocols and timers as pure data: messages in, listeners out"},
	{"stages/l2", []string{"internal/hugepage", "pipeline/...", "stages/l2/snooping"}, "the bridge, and what it knows of groups"},
	{"stages/*", []string{"internal/hugepage", "internal/printable", "pipeline/...", "telemetry/=", "telemetry/=/...", "telemetry/hash", "telemetry/record"},
		"a stage knows neither other stages nor I/O, so that any graph and any driver can run it; of telemetry it knows its own system"},
	{"dataplane/port", []string{"internal/printable", "dataplane/gso", "dataplane/nic", "dataplane/xsk", "dataplane/xdp", "dataplane/memif", "dataplane/shmem", "dataplane/vhost", "dataplane/virtio", "dataplane/pcapfile", "pipeline/packet", "pipeline/clock", "pipeline/header", "pipeline/limiter"},
		"a driver moves packets, completes their checksums, and knows no stage"},
	{"dataplane/worker", []string{"dataplane/gso", "dataplane/port", "pipeline", "pipeline/clock", "pipeline/packet"},
		"a worker runs any graph over any driver and must know none of either by name"},

	// Record path.
	{"telemetry/sketch/...", []string{"telemetry/hash", "telemetry/sketch/..."}, "a sketch is a data structure without packets or I/O"},
	{"telemetry/jetstream", []string{"internal/safefile", "telemetry/hash", "telemetry/record"}, "how records travel, for both ends"},
	{"telemetry/export", []string{"internal/safefile", "telemetry/hash", "telemetry/jetstream", "telemetry/record"}, "the exporter declares the source that it drains"},
	{"telemetry/collect", []string{"internal/certs", "internal/printable", "internal/safefile", "telemetry/jetstream", "telemetry/record"}, "the collector declares the sink that it fills"},
	{"telemetry/collect/archive", []string{"internal/safefile", "pipeline/clock", "telemetry/collect", "telemetry/jetstream", "telemetry/record"}, "the archive keeps records as they came, and knows neither what is in them nor questions"},
	{"telemetry/collect/embed", []string{"internal/certs", "internal/safefile", "internal/socket", "telemetry/collect", "telemetry/jetstream"}, "the server knows names and subjects, and no record"},
	{"telemetry/collect/set", []string{"internal/printable", "telemetry/collect", "telemetry/hash", "telemetry/jetstream", "telemetry/query", "telemetry/record", "telemetry/store"}, "collectors ask one another for records, of which the engine makes answers"},
	{"telemetry/collect/web", []string{"internal/certs", "internal/socket", "telemetry/collect", "telemetry/record"}, "one package decides who may connect"},
	{"telemetry/store", []string{"internal/printable", "internal/safefile", "telemetry/hash", "telemetry/record", "telemetry/status", "telemetry/sketch/...", "telemetry/pint", "telemetry/pint/...", "telemetry/disketch", "telemetry/oblivious", "telemetry/lds"},
		"the store merges records and knows neither questions nor transport"},
	{"telemetry/query", []string{"internal/plural", "internal/safefile", "pipeline/clock", "telemetry/store", "telemetry/hash", "telemetry/record", "telemetry/status", "telemetry/sketch/...", "telemetry/pint", "telemetry/pint/...", "telemetry/disketch", "telemetry/oblivious", "telemetry/lds"},
		"answers come from the store and the systems"},
	{"telemetry/local", []string{"telemetry/export", "telemetry/pint", "telemetry/pint/...", "telemetry/query", "telemetry/record", "telemetry/store"},
		"a switch's own answers are those of the engine over a smaller store, which an exporter fills"},
	{"telemetry/view/ipfix", []string{"telemetry/query"}, "heavy flows in another system's format, as query answers them"},
	{"telemetry/view/parquet/duckdb", nil, "a test with another reader"},
	{"telemetry/view/parquet", []string{"pipeline/clock", "telemetry/query", "telemetry/store", "telemetry/pint", "telemetry/pint/...", "telemetry/disketch", "telemetry/oblivious", "telemetry/lds"},
		"answers as tables, and the records as the store has them"},
	{"telemetry/view/page", nil, "the page asks the API as any program does, so that it can show nothing that others cannot ask"},
	{"telemetry/view/api/schemagen", []string{"telemetry/query", "telemetry/status"}, "the schema of answers follows the types that declare them"},
	{"telemetry/view/api/...", []string{"internal/plainjson", "internal/safefile", "telemetry/query", "telemetry/view/api"}, "the API carries questions and answers, independent of the engine"},
	{"telemetry/view/text", []string{"internal/plural", "pipeline/clock", "telemetry/query", "telemetry/store", "telemetry/view/api"}, "answers, and the status of a collector as its API reports it, as text for terminals"},
	{"telemetry/collect/service", []string{"config", "dataplane/lab/labpath", "internal/buildinfo", "pipeline/clock", "telemetry/..."},
		"it joins the record path from the stream to the views; of labs it knows the paths of flows"},
	{"telemetry/pint/encode", []string{"telemetry/hash", "telemetry/pint"}, "what a switch does to a digest needs neither the engine that plans nor the solvers that decode"},
	{"telemetry/pint/path", []string{"telemetry/hash", "telemetry/pint", "telemetry/pint/encode"}, "a solver reads what the encoding wrote, and knows no plan"},
	{"telemetry/pint/plan", []string{"internal/safefile", "internal/tomlfile", "pipeline/header", "telemetry/hash", "telemetry/pint", "telemetry/pint/encode"}, "a plan is valid if its queries can be encoded, and packets grow by the shim; how they are decoded is the sink's"},
	{"telemetry/pint/sink", []string{"telemetry/hash", "telemetry/pint", "telemetry/pint/encode", "telemetry/pint/path", "telemetry/pint/plan"}, "the sink joins the other three"},
	{"telemetry/pint/pinttest", []string{"telemetry/pint", "telemetry/pint/encode"}, "queries that tests of several packages go through"},
	{"telemetry/*", []string{"internal/hugepage", "telemetry/sketch/...", "telemetry/hash"},
		"the simulator, the collector and the live switch run the same algorithm, so it knows no packet and no I/O"},

	// Users of both.
	{"control/...", []string{"control/...", "internal/certs", "internal/plainjson", "internal/safefile", "internal/socket", "pipeline", "pipeline/packet", "telemetry/record", "telemetry/query", "telemetry/view/api"},
		"control declares what it needs of a stage or a switch, which node joins; a switch answers questions in the messages of the collector's API"},
	{"dataplane/lab/netnstest", []string{"dataplane/lab/netns", "dataplane/lab/process"}, "tests of any package use it, so it may use none of them"},
	{"dataplane/traffic/bpf", nil, "programs that send and receive in the kernel"},
	{"dataplane/traffic/traffictest", []string{"dataplane/lab/netnstest", "dataplane/traffic"}, "tests of any package send its packets"},
	{"dataplane/traffic", []string{"dataplane/traffic/bpf", "dataplane/lab/netns", "dataplane/nic", "dataplane/pcapfile", "dataplane/xsk"},
		"one generator sends what gen, the lab and the benchmarks send"},
	{"dataplane/lab/relay", []string{"telemetry/hash"}, "a relay is a cable, and knows no switch"},
	{"dataplane/lab", []string{"internal/bitrate", "internal/keyfile", "internal/plural", "internal/safefile", "internal/tomlfile", "dataplane/lab/netns", "dataplane/lab/process", "dataplane/lab/relay", "dataplane/traffic", "pipeline/header"},
		"the lab starts the binary like any user and reads its JSON, so that it tests what is shipped"},
	{"dataplane/vm", nil, "it runs virtual machines, and knows no more of weir than any user"},
	{"dataplane/vm/guest", []string{"dataplane/lab", "dataplane/lab/netns", "dataplane/vm"}, "the guest starts the binary like any user"},
	{"dataplane/lab/labpath", []string{"config", "dataplane/lab", "stages/l3", "stages/parse", "telemetry/hash", "telemetry/query"},
		"paths follow from the lab's file and the switches' configurations, by the functions with which switches choose next hops"},
	{"dataplane/lab/grade", []string{"config", "dataplane/lab", "dataplane/lab/labpath", "dataplane/lab/relay", "internal/plural", "stages/disketch", "stages/lds", "stages/oblivious", "stages/pint", "telemetry/oblivious", "telemetry/pint/plan", "telemetry/query", "telemetry/store", "telemetry/view/text"},
		"it compares what the lab knows with what queries answer, so it knows both; a collector is behind an interface"},
	{"p4/include", nil, "P4 defines its constants itself; only a test compares them with Go's"},
	{"p4/v1model", nil, "P4 programs; a test runs parts of them on BMv2"},
	{"p4/tna", nil, "P4 programs; only tests hold what they compute against Go's stages"},
	{"p4/bmv2", []string{"dataplane/lab/process"}, "it runs a switch of others, and knows our programs by their files only"},
	{"p4/bmv2/bmv2test", []string{"dataplane/lab/netnstest", "p4/bmv2"}, "tests of packages that run P4 programs share how these come to run"},
	{"p4/controller", []string{"p4/bmv2", "p4/tables"}, "the control plane of a P4 switch receives table entries and writes them to the switch"},
	{"p4/records", []string{"p4/tables", "pipeline", "pipeline/...", "stages", "stages/...", "telemetry/..."},
		"records are made by the same stages as a Weir switch's; a caller reads the registers"},
	{"p4/node", []string{"config", "control/api", "dataplane/lab/netns", "dataplane/nic", "dataplane/port", "node", "p4/bmv2", "p4/controller", "p4/records", "p4/tables", "pipeline", "pipeline/clock", "stages/pint", "telemetry/export", "telemetry/hash", "telemetry/pint", "telemetry/record"},
		"a P4 switch is configured, and reports, as a Weir switch"},
	{"p4/vectors", nil, "only tests run the same packets through the Go stages and through BMv2"},
	{"config", []string{"control/...", "internal/keyfile", "internal/printable", "internal/safefile", "internal/tomlfile", "dataplane/port", "dataplane/worker", "dataplane/xdp", "dataplane/xsk", "pipeline/...", "stages/...", "telemetry/..."},
		"config gathers the Config of every package"},
	{"p4/tables/p4rt", nil, "messages as the specification numbers them"},
	{"p4/tables", []string{"p4/tables/p4rt", "pipeline", "stages/...", "telemetry/hash", "telemetry/pint", "telemetry/pint/...", "telemetry/disketch", "telemetry/oblivious", "telemetry/lds"},
		"entries are made of the stages' own numbers, whoever writes them; files and faults' lines are config's and cmd's"},
	{"node", []string{"config", "control/...", "dataplane/hostif", "dataplane/nic", "dataplane/port", "dataplane/worker", "internal/buildinfo", "internal/handover", "internal/privilege", "internal/socket", "pipeline/...", "stages/...", "telemetry/export", "telemetry/local", "telemetry/pint", "telemetry/query", "telemetry/record", "telemetry/sflow", "telemetry/status", "telemetry/view/api"},
		"it joins packet path, record path and control into one switch, and is what programs import; of the systems it knows only what control shows"},
	{"bench/...", []string{"bench/...", "config", "control/...", "dataplane/...", "internal/hugepage", "pipeline/...", "stages/...", "telemetry/..."},
		"benchmarks may use everything; only cmd, and replay a simulated network, use them"},
	{"node/replay", []string{"bench/netsim", "bench/netsim/intmd", "config", "control", "control/api", "dataplane/pcapfile", "dataplane/port", "dataplane/worker", "node", "pipeline", "pipeline/packet", "stages", "stages/...", "telemetry/export", "telemetry/local", "telemetry/pint", "telemetry/pint/encode", "telemetry/query", "telemetry/record", "telemetry/view/api", "telemetry/view/text"},
		"it runs a switch's pipeline over captures, or a simulated row of switches, and reports what a node would"},
	{"cmd/...", []string{"bench/...", "cmd/...", "config", "control/...", "dataplane/...", "internal/bitrate", "internal/keyfile", "internal/plural", "internal/progress", "internal/safefile", "internal/tomlfile", "node", "node/...", "p4/...", "pipeline/...", "stages/...", "telemetry/..."},
		"wiring"},
}

// foreign says which of our packages may import a package from outside, and
// what is below it, in code that is not a test. Of the standard library only
// the packages listed are guarded.
type foreign struct {
	pkg string
	by  []string
	why string
}

var foreigns = []foreign{
	{"C", nil, "one binary without cgo builds on a machine with Go alone"},
	{"plugin", nil, "one binary"},
	{"unsafe", []string{"bench/...", "control/api", "dataplane/lab/...", "dataplane/memif", "dataplane/nic", "dataplane/port", "dataplane/shmem", "dataplane/traffic", "dataplane/virtio", "dataplane/vm/guest", "dataplane/xsk", "internal/handover", "internal/hugepage", "internal/privilege", "p4/tables/p4rt", "stages/conntrack", "telemetry/view/api"},
		"rings, ioctls and capset share memory with the kernel, and generated messages their own; all else is checked by the compiler"},
	{"reflect", []string{"cmd/...", "config", "control/api", "dataplane/lab", "dataplane/port", "internal/tomlfile", "node", "p4/tables/p4rt", "stages/conntrack", "telemetry/view/api/...", "telemetry/view/parquet"},
		"types are known where packets run; dataplane/port closes what a library keeps to itself, a table's columns are a type's fields, and conntrack compares the types of two processes"},
	{"log", nil, "there is one logger, zap"},
	{"os/exec", []string{"bench/...", "cmd/...", "dataplane/lab/...", "dataplane/vm/...", "internal/...", "p4/bmv2"}, "a switch starts no program"},
	{"net/http", []string{"bench/...", "cmd/...", "control/...", "telemetry/collect/archive", "telemetry/collect/service", "telemetry/collect/web", "telemetry/view/..."}, "servers belong to control and to the collector's views"},
	{"golang.org/x/sys", []string{"bench/...", "cmd/...", "control/...", "dataplane/...", "internal/handover", "internal/hugepage", "internal/privilege", "internal/progress", "internal/safefile", "internal/socket", "internal/testpmd", "node", "p4/bmv2", "pipeline/clock", "pipeline/packet", "stages/l2", "stages/pint", "telemetry/export", "telemetry/hash", "telemetry/lds", "telemetry/oblivious", "telemetry/pint/encode", "telemetry/sketch"},
		"system calls are the data plane's; socket asks who connected; handover passes descriptors; l2 reads the clock for its ageing, outside the packet path; hash, lds, oblivious, pint and sketch ask what the processor can"},

	{"github.com/asavie/xdp", []string{"dataplane/port"},
		"it is the second opinion on AF_XDP behind the port contract; nothing else may rely on it"},
	{"github.com/cilium/ebpf", []string{"bench/...", "dataplane/nic", "dataplane/port", "dataplane/traffic/...", "dataplane/xdp"}, "programs and maps stay behind the drivers"},
	{"github.com/vishvananda/netlink", []string{"bench/...", "dataplane/lab/...", "dataplane/hostif", "dataplane/nic", "dataplane/port", "dataplane/traffic", "dataplane/vm/guest", "dataplane/xdp"},
		"only what opens or makes interfaces asks for them"},
	{"github.com/mdlayher", []string{"dataplane/nic", "dataplane/traffic"},
		"generic netlink; the other library's header reads two bytes behind its end"},
	{"github.com/vishvananda/netns", []string{"dataplane/lab/netns"}, "one package switches threads between namespaces"},
	{"github.com/google/gopacket", []string{"bench/..."}, "it allocates per packet; tests use it as a second opinion"},
	{"github.com/cespare/xxhash", []string{"bench/...", "pipeline/packet", "stages/parse", "telemetry/hash"}, "one family of hashes, behind one name"},
	{"github.com/klauspost/compress", []string{"telemetry/lds", "telemetry/sketch/packing"}, "records are compressed where they are encoded"},
	{"github.com/nats-io/nats-server", []string{"bench/...", "telemetry/collect/embed"}, "one package embeds the server"},
	{"github.com/nats-io/nats.go", []string{"cmd/...", "telemetry/collect/...", "telemetry/jetstream", "bench/scale/live"}, "one package names and dials, for both ends; a live run reads all of the stream, to account for it"},
	{"github.com/gaissmai/bart", []string{"stages/..."}, "longest prefix matches are stages' business"},
	{"github.com/pelletier/go-toml/v2", []string{"internal/tomlfile"}, "its parser gives each key's position; one package reads TOML"},
	{"github.com/BurntSushi/toml", []string{"config", "dataplane/lab", "telemetry/pint/plan"},
		"it writes dumps and plans; a plan's digest is of the text that it writes, so another encoder cannot replace it"},
	{"github.com/apache/datasketches-go", []string{"telemetry/pint/sink"}, "frequent values of the recorder"},
	{"golang.org/x/sync", []string{"bench/...", "control", "telemetry/collect/archive", "telemetry/view/api"}, "semaphores and groups of goroutines; packets meet neither"},
	{"gonum.org/v1/gonum", []string{"bench/...", "telemetry/lds", "telemetry/oblivious", "telemetry/pint/plan"}, "the plan's linear program; the normal distribution and the beta function, for the bounds of samples"},
	{"gonum.org/v1/plot", []string{"bench"}, "one function draws results"},
	{"go.uber.org/zap", []string{"bench/...", "cmd/...", "control/...", "dataplane/lab", "node", "telemetry/collect/...", "telemetry/view/api"}, "the packet path counts instead of logging"},
	{"github.com/google/renameio/v2", []string{"dataplane/lab", "telemetry/pint/plan", "telemetry/view/parquet"}, "files that readers see as the old or the new one, never a part"},
	{"github.com/coreos/go-systemd/v22/daemon", []string{"cmd/weir"}, "the program notifies systemd, packages do not"},
	{"golang.org/x/term", []string{"dataplane/lab", "internal/progress", "telemetry/view/text"}, "progress and colours are drawn on terminals only"},
	{"github.com/spf13/cobra", []string{"cmd/..."}, "command lines are cmd's"},
	{"github.com/spf13/pflag", []string{"cmd/..."}, "command lines are cmd's"},
	{"github.com/vbauerster/mpb", []string{"dataplane/lab", "internal/progress"}, "progress bars are for terminals"},
	{"github.com/prometheus/client_golang", []string{"control/metrics", "telemetry/collect/web"}, "metrics are shown by control, out of reports, and by the collector's server"},
	{"kernel.org/pub/linux/libs/security/libcap", []string{"internal/privilege"}, "a process has one set of capabilities, and one package drops them"},
	{"connectrpc.com/connect", []string{"cmd/...", "control/...", "telemetry/collect/service", "telemetry/view/api"}, "the APIs are control's and the collector's"},
	{"google.golang.org/protobuf", []string{"cmd/...", "control/...", "internal/plainjson", "node", "p4/tables", "p4/tables/p4rt", "telemetry/view/api"}, "the APIs' messages are theirs, plainjson writes any, P4Runtime's are p4/tables'; records have their own codec"},
	{"github.com/p4lang/p4runtime", []string{"p4/tables"}, "one package speaks P4Runtime"},
	{"github.com/parquet-go/parquet-go", []string{"telemetry/collect/archive", "telemetry/view/parquet"}, "one view writes Parquet, and the archive keeps records in it"},
	{"github.com/minio/minio-go/v7", []string{"telemetry/collect/archive"}, "one package knows how files are kept elsewhere"},
	{"github.com/netsampler/goflow2", nil, "a collector of others, the second opinion of tests"},
	{"github.com/apache/thrift", []string{"p4/bmv2"}, "BMv2's runtime speaks it, and nothing else here does"},
	{"github.com/HdrHistogram/hdrhistogram-go", []string{"bench/...", "dataplane/traffic"}, "latencies are measured by benchmarks and sinks"},
}

// ban keeps a package out of packages of ours, however many imports lie
// between.
type ban struct {
	pkg  string
	from []string
	why  string
}

// packetPath is what runs between a packet's arrival and its leaving.
var packetPath = []string{"dataplane/port", "dataplane/worker", "dataplane/xdp", "dataplane/xsk", "pipeline/...", "stages/..."}

// telemetryAlone is the record path without its servers.
var telemetryAlone = []string{"telemetry/*", "telemetry/sketch/...", "telemetry/view/..."}

var bans = []ban{
	{"net/http", packetPath, "it brings servers, goroutines and four megabytes to where packets run"},
	{"net/http/pprof", append([]string{"config", "control/...", "dataplane/...", "internal/...", "telemetry/collect/web"}, append(telemetryAlone, packetPath...)...),
		"it registers itself on the default server; profiles are written by the benchmarks, and the NATS server brings it to telemetry/collect/embed and cmd, which do not serve it"},
	{"expvar", append([]string{"config", "control", "control/api", "control/filter", "control/capture", "dataplane/..."}, append(telemetryAlone, packetPath...)...),
		"it registers itself on the default server; Prometheus' library and the NATS server bring it to control/metrics, telemetry/collect and cmd, which do not serve it"},
	{"go.uber.org/zap", packetPath, "the packet path counts instead of logging"},
	{"github.com/spf13/cobra", append([]string{"config", "control/..."}, packetPath...), "a package that reads command lines cannot be used by another program"},
}
