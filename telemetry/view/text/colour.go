package text

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Colour is how a text stands out on a terminal; the zero value is as the rest.
type Colour string

// Colours, as sequences of a terminal (ECMA-48).
const (
	Bold   Colour = "\x1b[1m"
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
)

const plain = "\x1b[0m"

// Painter is a writer that knows whether it takes colours, for one that is neither a file nor plain.
type Painter interface {
	io.Writer
	Coloured() bool
}

// Coloured reports whether texts to w have colours: w is a terminal that can, and the environment has no NO_COLOR
// (no-color.org). CLICOLOR_FORCE=1 wants them anywhere.
func Coloured(w io.Writer) bool {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	if p, ok := w.(Painter); ok {
		return p.Coloured()
	}
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Paint gives a text to w a colour, if w takes any.
func Paint(w io.Writer, c Colour, text string) string {
	if !Coloured(w) {
		return text
	}
	return paintCell(c, text)
}

func paintCell(c Colour, text string) string {
	if c == "" || text == "" {
		return text
	}
	return string(c) + text + plain
}

// cellColour is that of a table's cell, whose column has the marks.
func cellColour(title bool, marks, cell string) Colour {
	switch {
	case title:
		return Bold
	case strings.Contains(marks, "!") && strings.Trim(cell, "0.- kMG") != "":
		return Red
	case strings.Contains(marks, "~") && cell == "up":
		return Green
	case strings.Contains(marks, "~") && cell != "":
		return Red
	}
	return ""
}
