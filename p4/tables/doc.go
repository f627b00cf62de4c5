// Package tables makes, of a switch's configuration, all that the control plane writes to
// a P4 switch that runs p4/v1model/weir.p4 in its place: table entries,
// default actions, registers, clone sessions, multicast groups and the parameters
// of the second CRC.
//
//	Switch --Build--> Contents --WriteCommands--> runtime commands of BMv2
//	                      |
//	                      +-----writeRequest----> P4Runtime
//
// The numbers are those that the Go stages decide by: the stages' own packages
// give them (files tables.go), so that both cannot decide otherwise. What a P4 target
// cannot do is refused, all faults at once.
package tables
