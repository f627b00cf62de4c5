// Package embed runs the NATS server that a collector brings along: JetStream with
// its files in one folder, for the switches that publish to it.
//
// Each client may do its part only: a switch publishes records under its own
// number and reads their acknowledgements, a collector makes the stream and reads it,
// and any client on this machine without a name, where no names are
// configured, publishes. None of them can delete what is kept.
package embed
