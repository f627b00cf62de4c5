// Package metrics shows a switch to Prometheus, at /metrics, and to whoever watches
// over it, at /healthz. It makes both out of the report that "weir ctl show report"
// prints, when it is asked, so packets pay nothing. Its server is plain HTTP for whoever
// reaches it, reads only, and is bounded like that of the API.
package metrics
