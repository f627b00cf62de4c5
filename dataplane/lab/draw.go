package lab

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// drawing draws the topology in ASCII: trails of boxes joined by cables. A node that is on several
// trails is drawn in each. A trail that is wider than so many columns goes on below with the box in which it ended.
func (c *Config) drawing(columns int) string {
	var b strings.Builder
	for _, trail := range c.trails() {
		for len(trail) > 0 {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			n := c.fitting(trail, columns)
			row := slices.Clone(trail[:n])
			if n == len(trail) {
				trail = nil
			} else {
				row[n-1].right = ""
				trail = trail[n-1:]
				trail[0].left = ""
			}
			c.drawTrail(&b, row)
		}
	}
	return b.String()
}

// fitting is how many boxes of a trail so many columns hold, 2 at least if there are so many: each row has a cable.
func (c *Config) fitting(trail []hop, columns int) int {
	width := 2 // of the margin
	for i, h := range trail {
		if i > 0 {
			width += len(cable)
		}
		if width += widest(c.caption(h)) + len("|  |"); width > columns && i >= 2 {
			return i
		}
	}
	return len(trail)
}

// widest is the width of the longest line.
func widest(lines []string) (width int) {
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line))
	}
	return width
}

// stagesColumns is how wide the names of a switch's stages are in its box, where they have several lines.
const stagesColumns = 24

// wrapped breaks words into lines.
func wrapped(words []string, columns int) (lines []string) {
	line := ""
	for _, word := range words {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
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
			return append(append(lines, "switch"), wrapped(s.stages(), stagesColumns)...)
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
		height, widths[i] = max(height, len(captions[i])), widest(captions[i])
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
