package lab

import "testing"

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
		if got := c.drawing(); got != test.want {
			t.Errorf("Drawing:\n%s\nwant:\n%s", got, test.want)
		}
	}
}
