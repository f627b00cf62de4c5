package lab

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestDrawing(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{line, `  +-------------+   +-------------+   +-------------+
  | h1          |---| p0  s1  p1  |---| h2          |
  | 10.0.0.1/24 |   | switch      |   | 10.0.0.2/24 |
  | fd00::1/64  |   | parse patch |   |             |
  +-------------+   +-------------+   +-------------+
`},
		{`
[[host]]
name = "a"
[[host]]
name = "b"
[[host]]
name = "c"
[[bridge]]
name = "hub"
[[bridge]]
name = "alone"
[[link]]
endpoints = ["a", "hub:x"]
[[link]]
endpoints = ["b", "hub:y"]
[[link]]
endpoints = ["c", "hub:z"]
`, `  +---+   +--------------+   +---+
  | a |---| x  hub  y    |---| b |
  |   |   | Linux bridge |   |   |
  +---+   +--------------+   +---+

  +---+   +--------------+
  | c |---| z  hub       |
  |   |   | Linux bridge |
  +---+   +--------------+

  +--------------+
  | alone        |
  | Linux bridge |
  +--------------+
`},
	} {
		c, err := Parse(test.text, "x")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.drawing(80); got != test.want {
			t.Errorf("Drawing:\n%s\nwant:\n%s", got, test.want)
		}
	}
}

// TestDrawingFolds: a trail that is too wide goes on below with the box in which it ended, which has each of its ports once.
func TestDrawingFolds(t *testing.T) {
	c, err := Parse(line, "x")
	if err != nil {
		t.Fatal(err)
	}
	const want = `  +-------------+   +-------------+
  | h1          |---| p0  s1      |
  | 10.0.0.1/24 |   | switch      |
  | fd00::1/64  |   | parse patch |
  +-------------+   +-------------+

  +-------------+   +-------------+
  | s1  p1      |---| h2          |
  | switch      |   | 10.0.0.2/24 |
  | parse patch |   |             |
  +-------------+   +-------------+
`
	for _, columns := range []int{0, 36, 52} {
		if got := c.drawing(columns); got != want {
			t.Errorf("in %d columns:\n%s\nwant:\n%s", columns, got, want)
		}
	}
	if got := c.drawing(53); strings.Count(got, "\n") != 5 {
		t.Errorf("in 53 columns, which it needs:\n%s", got)
	}
}

// TestShippedDrawingsFit: no line of a shipped lab's drawing is wider than a terminal, and each cable is in it.
func TestShippedDrawingsFit(t *testing.T) {
	files, err := filepath.Glob("../../config/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	drawn := 0
	for _, file := range files {
		if !IsFile(file) {
			continue
		}
		c, err := Load(file)
		if err != nil {
			continue // a switch's file, which has lists of others' names
		}
		drawn++
		drawing := c.drawing(80)
		for l := range strings.Lines(drawing) {
			if n := len(strings.TrimSuffix(l, "\n")); n > 80 {
				t.Errorf("%s: a line of %d columns: %s", filepath.Base(file), n, l)
			}
		}
		if n := strings.Count(drawing, "|"+cable+"|"); n != len(c.Links) {
			t.Errorf("%s: %d cables are drawn, of %d:\n%s", filepath.Base(file), n, len(c.Links), drawing)
		}
	}
	if drawn < 5 {
		t.Errorf("%d labs were drawn", drawn)
	}
}
