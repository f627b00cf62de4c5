package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// metricsOf collects what the modules of a graph and the exporter count of their
// own, in the order of the graph.
func metricsOf(chain []pipeline.Named, e *exporting) []*api.Metric {
	var all []*api.Metric
	add := func(stage string) func(pipeline.Metric) {
		return func(m pipeline.Metric) {
			labels := make(map[string]string, len(m.Labels))
			for _, l := range m.Labels {
				labels[l[0]] = l[1]
			}
			all = append(all, &api.Metric{Stage: stage, Name: m.Name, Help: m.Help, Labels: labels, Value: m.Value, Gauge: m.Gauge})
		}
	}
	for _, n := range chain {
		if m, ok := n.Module.(pipeline.Metered); ok {
			m.Metrics(add(n.Name))
		}
	}
	if e != nil {
		e.metrics(add(recordStage))
	}
	return all
}

// controlMetrics are what the control server counts; nil has not begun.
func controlMetrics(s *control.Server) []*api.Metric {
	if s == nil {
		return nil
	}
	return counterMetrics(s.Counters())
}

// controlCounters are the control server's.
type controlCounters = control.Counters

func counterMetrics(c controlCounters) []*api.Metric {
	metric := func(name, help string, n uint64) *api.Metric {
		return &api.Metric{Stage: "control", Name: name, Help: help, Value: float64(n)}
	}
	return []*api.Metric{
		metric("refused_connections_total", "connections closed at once, since there were too many", c.Refused),
		metric("denied_calls_total", "calls that change the switch, by clients that may not", c.Denied),
		metric("lost_audit_lines_total", "lines of the audit log that could not be written", c.AuditLost),
	}
}

// recordStage begins the names of the record path's metrics.
const recordStage = "telemetry"

func printMetrics(w io.Writer, metrics []*api.Metric) error {
	t := text.NewTable("STAGE", "METRIC", "OF", ">VALUE", "WHAT")
	for _, m := range metrics {
		if m.Stage == recordStage {
			continue // printRecords shows them
		}
		t.Row(m.Stage, m.Name, labelText(m.Labels), formatValue(m.Value), m.Help)
	}
	if t.Empty() {
		_, err := fmt.Fprintln(w, "no stage of the graph counts anything of its own")
		return err
	}
	return t.Write(w)
}

func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return "-"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, " ")
}

// formatValue writes counters whole and the rest with six digits.
func formatValue(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
