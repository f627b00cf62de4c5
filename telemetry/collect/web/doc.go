// Package web is the HTTP server of a collector's views: it decides who comes in, as
// whom, and for how long; what is served is given to it.
//
//	TCP on loopback, plain   ──> reads
//	TCP with TLS 1.3, certificates on both sides ──> reads; changes, if its name is among the admins
//	unix socket              ──> root and the collector's own user: both; its group: reads
//
// Clients that are slow, large or many cost a bounded time, memory and number of
// connections each.
package web
