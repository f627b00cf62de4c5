package nic

// driverFacts are what drivers do not tell by themselves.
type driverFacts struct {
	// noXDP and noZeroCopy say when a driver that can does not.
	noXDP, noZeroCopy string
	// bufferUnit is the step of receive buffers' sizes in zero-copy, in bytes; 0: any size.
	bufferUnit int
	note       string
}

// drivers is by the name of ETHTOOL_GDRVINFO; docs/nic.md has the whole table, with the sources.
var drivers = map[string]driverFacts{}
