package lab

import (
	"strings"
	"unicode/utf8"
)

// drawing draws the topology in ASCII: trails of boxes joined by cables. A node that is on several
// trails is drawn in each.
func (c *Config) drawing() string {
	var b strings.Builder
	for i, trail := range c.trails() {
		if i > 0 {
			b.WriteByte('\n')
		}
		c.drawTrail(&b, trail)
	}
	return b.String()
}

// hop is one node of a trail with the ports of the cables on both sides.
type hop struct{ node, left, right string }

// trails splits the links into walks that use each link once. Walks begin at hosts
// first, so a line of switches between two hosts is one walk.
func (c *Config) trails() [][]hop {
	used := make([]bool, len(c.Links))
	// next finds an unused link of a node, and the ports at its near and far end.
	next := func(node string) (i int, near, far, other string) {
		for i, l := range c.Links {
			for side, e := range l.Endpoints {
				n, port := splitEndpoint(e)
				if n == node && !used[i] {
					otherNode, otherPort := splitEndpoint(l.Endpoints[1-side])
					return i, port, otherPort, otherNode
				}
			}
		}
		return -1, "", "", ""
	}
	var trails [][]hop
	drawn := map[string]bool{}
	from := func(node string) {
		trail := []hop{{node: node}}
		for {
			at := &trail[len(trail)-1]
			drawn[at.node] = true
			i, near, far, other := next(at.node)
			if i < 0 {
				break
			}
			used[i], at.right = true, near
			trail = append(trail, hop{node: other, left: far})
		}
		trails = append(trails, trail)
	}
	var nodes []string
	for _, h := range c.Hosts {
		nodes = append(nodes, h.Name)
	}
	for _, s := range c.Switches {
		nodes = append(nodes, s.Name)
	}
	for _, b := range c.Bridges {
		nodes = append(nodes, b.Name)
	}
	for _, node := range nodes {
		for {
			if i, _, _, _ := next(node); i < 0 && drawn[node] {
				break
			}
			from(node)
		}
	}
	return trails
}

// caption is the text in a node's box.
func (c *Config) caption(h hop) []string {
	lines := []string{strings.Join(strings.Fields(h.left+"  "+h.node+"  "+h.right), "  ")}
	if host := c.host(h.node); host != nil {
		return append(lines, host.Addresses...)
	}
	for i := range c.Switches {
		if s := &c.Switches[i]; s.Name == h.node {
			return append(lines, "switch", strings.Join(s.stages(), " "))
		}
	}
	for i := range c.Relays {
		if c.Relays[i].Name == h.node {
			return append(lines, c.Relays[i].title())
		}
	}
	return append(lines, "Linux bridge")
}

// stages are the names in a switch's graph.
func (s *Switch) stages() []string {
	if s.Graph != nil {
		return s.Graph
	}
	table, _ := s.Config["switch"].(map[string]any)
	list, _ := table["graph"].([]any)
	var names []string
	for _, stage := range list {
		if name, ok := stage.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

const cable = "---"

func (c *Config) drawTrail(b *strings.Builder, trail []hop) {
	height := 0
	captions := make([][]string, len(trail))
	widths := make([]int, len(trail))
	for i, h := range trail {
		captions[i] = c.caption(h)
		height = max(height, len(captions[i]))
		for _, line := range captions[i] {
			widths[i] = max(widths[i], utf8.RuneCountInString(line))
		}
	}
	for row := -1; row <= height; row++ {
		var line strings.Builder
		for i := range trail {
			if i > 0 {
				join := strings.Repeat(" ", len(cable))
				if row == 0 {
					join = cable
				}
				line.WriteString(join)
			}
			if row < 0 || row == height {
				line.WriteString("+" + strings.Repeat("-", widths[i]+2) + "+")
				continue
			}
			text := ""
			if row < len(captions[i]) {
				text = captions[i][row]
			}
			line.WriteString("| " + text + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)) + " |")
		}
		b.WriteString("  " + line.String() + "\n")
	}
}
