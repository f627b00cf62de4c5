// Package metrics shows a switch to Prometheus, at /metrics, and to health
// checks, at /healthz. It makes both, on request, from the report that "weir ctl show
// report" prints, at no cost per packet. Its server is plain HTTP without authentication,
// read-only, and bounded like that of the API.
package metrics
