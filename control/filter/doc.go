// Package filter chooses packets by what their headers say, for traces and
// captures: "tcp and port 80", "udp and host 10.0.0.1 and not port 53".
//
//	expression = term { "or" term }        term = factor { ["and"] factor }
//	factor     = "not" factor | "(" expression ")" | primitive
//	primitive  = "arp" | "ip" | "ip6" | "tcp" | "udp" | "icmp" | "icmp6" | "sctp"
//	           | "vlan" [NUMBER] | "proto" NUMBER | "ethertype" NUMBER
//	           | [direction] ("host" ADDRESS | "net" PREFIX | "port" NUMBER[-NUMBER] | "ether" MAC)
//	direction  = "src" | "dst"
//
// It is a small part of what tcpdump knows, with the same words, so that a
// filter from a habit mostly works. It reads the bytes itself, because packets
// in front of the first stage are not parsed yet. A header that is cut short or
// broken has no fields, and only "not" finds it.
package filter
