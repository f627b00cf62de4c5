package netsim

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ReadGMLFile reads a graph from a GML file, and names it after the file.
func ReadGMLFile(file string) (*Graph, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read topology: %w", err)
	}
	defer f.Close()
	return readGML(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), f)
}

// readGML reads a graph in the Graph Modelling Language (Himsolt, 1996), as far
// as the Topology Zoo uses it: node records with id and label, edge records
// with source and target. Everything else is skipped; parallel edges are
// merged, with a "multigraph" flag or without.
func readGML(name string, r io.Reader) (*Graph, error) {
	p := &gmlParser{r: bufio.NewReader(r), line: 1}
	var nodes []Node
	var ends [][2]int // by id: edges may come before nodes
	err := p.record(0, func(key string) error {
		if key != "graph" {
			return p.skip()
		}
		return p.list(func(key string) error {
			switch key {
			case "node":
				n := Node{ID: -1, Edge: true}
				defer func() { nodes = append(nodes, n) }()
				return p.list(func(key string) (err error) {
					switch key {
					case "id":
						n.ID, err = p.integer()
					case "label":
						n.Label, err = p.scalar()
					default:
						err = p.skip()
					}
					return err
				})
			case "edge":
				e := [2]int{-1, -1}
				defer func() { ends = append(ends, e) }()
				return p.list(func(key string) (err error) {
					switch key {
					case "source":
						e[0], err = p.integer()
					case "target":
						e[1], err = p.integer()
					default:
						err = p.skip()
					}
					return err
				})
			}
			return p.skip()
		})
	})
	if err != nil {
		return nil, fmt.Errorf("topology %s, line %d: %w", name, p.line, err)
	}
	return graphOfIDs(name, nodes, ends)
}

// graphOfIDs turns ids into node numbers.
func graphOfIDs(name string, nodes []Node, ends [][2]int) (*Graph, error) {
	number := make(map[int]int, len(nodes))
	for i, n := range nodes {
		if n.ID < 0 {
			return nil, fmt.Errorf("topology %s: node %q has no id of 0 or more", name, n.Label)
		}
		number[n.ID] = i
	}
	links := make([]Link, 0, len(ends))
	for _, e := range ends {
		a, known := number[e[0]]
		b, known2 := number[e[1]]
		if !known || !known2 {
			return nil, fmt.Errorf("topology %s: edge %d-%d leads to no node", name, e[0], e[1])
		}
		links = append(links, Link{a, b})
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("topology %s: no nodes: is this a GML file?", name)
	}
	return NewGraph(name, nodes, links)
}

// gmlDepth bounds the nesting of lists.
const gmlDepth = 16

// gmlParser reads keys and values: integers, reals, strings and [ lists ].
type gmlParser struct {
	r     *bufio.Reader
	line  int
	depth int
}

// token returns the next word, bracket or quoted string (with its opening
// quote, to distinguish it from a word). At the end of the file it is empty.
func (p *gmlParser) token() (string, error) {
	c, err := p.space()
	if err == io.EOF {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteByte(c)
	if c == '[' || c == ']' {
		return b.String(), nil
	}
	for {
		d, err := p.r.ReadByte()
		switch {
		case err == io.EOF && c != '"':
			return b.String(), nil
		case err == io.EOF:
			return "", fmt.Errorf("a string is not closed")
		case err != nil:
			return "", err
		case d == '\n':
			p.line++
		}
		if c == '"' {
			if d == '"' {
				return b.String(), nil
			}
		} else if d <= ' ' {
			return b.String(), nil
		} else if d == '[' || d == ']' {
			return b.String(), p.r.UnreadByte()
		}
		b.WriteByte(d)
	}
}

// space returns the first byte that is neither white space nor in a comment,
// which goes from # to the end of the line.
func (p *gmlParser) space() (byte, error) {
	comment := false
	for {
		c, err := p.r.ReadByte()
		if err != nil {
			return 0, err
		}
		if c == '\n' {
			p.line++
			comment = false
		}
		if c == '#' {
			comment = true
		}
		if c > ' ' && !comment {
			return c, nil
		}
	}
}

// record calls f for each key, which must take the value, until the list of
// the depth, or the file, ends.
func (p *gmlParser) record(depth int, f func(key string) error) error {
	for {
		key, err := p.token()
		switch {
		case err != nil:
			return err
		case key == "" && depth == 0, key == "]" && depth > 0:
			return nil
		case key == "":
			return fmt.Errorf("a list is not closed")
		case key == "[" || key == "]" || key[0] == '"':
			return fmt.Errorf("%s where a key should be", key)
		}
		if err := f(key); err != nil {
			return err
		}
	}
}

// list reads a list value.
func (p *gmlParser) list(f func(key string) error) error {
	open, err := p.token()
	if err != nil {
		return err
	}
	if open != "[" {
		return fmt.Errorf("%q where a list should begin", open)
	}
	return p.inside(f)
}

// inside reads a list behind its bracket.
func (p *gmlParser) inside(f func(key string) error) error {
	if p.depth++; p.depth > gmlDepth {
		return fmt.Errorf("lists are nested more than %d deep", gmlDepth)
	}
	defer func() { p.depth-- }()
	return p.record(p.depth, f)
}

// scalar reads a value that is not a list, without quotes.
func (p *gmlParser) scalar() (string, error) {
	v, err := p.token()
	if err == nil && (v == "" || v == "[" || v == "]") {
		err = fmt.Errorf("%q where a value should be", v)
	}
	return strings.TrimPrefix(v, `"`), err
}

func (p *gmlParser) integer() (int, error) {
	v, err := p.scalar()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, fmt.Errorf("%q is no integer", v)
	}
	return n, nil
}

// skip passes over any value.
func (p *gmlParser) skip() error {
	v, err := p.token()
	switch {
	case err != nil:
		return err
	case v == "[":
		return p.inside(func(string) error { return p.skip() })
	case v == "" || v == "]":
		return fmt.Errorf("%q where a value should be", v)
	}
	return nil
}
