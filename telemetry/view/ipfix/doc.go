// Package ipfix exports the heavy flows of the network as IPFIX (RFC 7011), so that flow
// collectors that know nothing of Weir show them.
//
// A data record is one flow in one window, with what is known of its key and of its size:
//
//	4 or 6: source and destination address          8, 12 or 27, 28
//	5-tuple: ports, protocol                        7, 11, 4
//	ipVersion                                       60
//	flowStart-, flowEndMilliseconds (UTC)           152, 153
//	packets: packetDeltaCount, upper-, lowerCILimit 2, 336, 337
//	bytes: octetDeltaCount, upper-, lowerCILimit    1, 336, 337
//	confidenceLevel of the limits                   338
//
// Counts are estimates, and the limits right behind a count are its bounds: IANA has elements for these
// (RFC 5477), so no enterprise number is needed. A collector that does not know them skips them by their
// length. There is no samplingProbability on purpose: collectors that find one divide counts by
// it, and these are of the whole traffic already.
//
// Which of the parts a record has is its template: 256 plus the sum of 1 for IPv6, 2 for the 5-tuple, 4 for
// packets and 8 for bytes. The observation domain of what was measured in the whole network is 0, as RFC 7011
// wants it of aggregated records, unless the configuration says otherwise.
//
// Messages go over UDP, none larger than the path's MTU and templates again and again, or over TCP, templates
// once per connection. Neither is encrypted.
package ipfix
