package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/telemetry/view/text"
)

func printMetrics(w io.Writer, metrics []*api.Metric) error {
	t := text.NewTable("STAGE", "METRIC", "OF", ">VALUE", "WHAT")
	for _, m := range metrics {
		if m.Stage == node.RecordStage {
			continue // printRecords shows them
		}
		t.Row(m.Stage, m.Name, labelText(m.Labels), formatValue(m.Value), m.Help)
	}
	if t.Empty() {
		_, err := fmt.Fprintln(w, "no stage of the graph has its own counters")
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
