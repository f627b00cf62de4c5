// Package pcapfile reads and writes capture files: pcap of either byte order,
// with micro- or nanoseconds and with the extended record header of the
// modified format, and pcapng; plain or compressed by gzip. What a file is, is
// read from its first bytes and never from its name.
//
// Captures are hostile input. The reader streams: it holds one buffer of
// bufferSize bytes and a few bytes per pcapng interface, whatever lengths a file claims. It
// reads each record's header and hands out the packet's bytes straight into
// the caller's frame. It stops at the first contradiction with ErrCorrupt, or
// with ErrTruncated where the file ends too early; all records before are good.
//
// The reader is ours because that of gopacket's pcapgo was not made for hostile
// files: a short pcapng option panics it (an index behind the value), a time
// resolution of 10^-64 divides by zero, a block shorter than its fixed part
// wraps its 32-bit length, and a claimed capture length of 4 GiB is allocated.
// It serves as the second opinion of the tests.
//
// Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
package pcapfile
