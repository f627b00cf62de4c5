package lab

import (
	"fmt"
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// plainColumns is how wide a report may be that goes to no terminal.
const plainColumns = 100

// columns is the width of the terminal that w is.
func columns(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return plainColumns
}

// console shows progress: bars on a terminal, else one line for each step.
type console struct {
	w    io.Writer
	bars bool
}

// newConsole writes to a file, usually standard error.
func newConsole(f *os.File) Progress {
	return console{f, term.IsTerminal(int(f.Fd()))}
}

func (c console) Step(format string, args ...any) {
	fmt.Fprintf(c.w, format+"\n", args...)
}

func (c console) Begin(what string, total int64) Meter {
	if !c.bars {
		c.Step("%s", what)
		return silent{}
	}
	p := mpb.New(mpb.WithOutput(c.w), mpb.WithWidth(40))
	bar := p.AddBar(total, mpb.PrependDecorators(decor.Name(what+" ")),
		mpb.AppendDecorators(decor.Percentage(), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6})))
	return &barMeter{p, bar}
}

// barMeter is a Meter on a terminal.
type barMeter struct {
	progress *mpb.Progress
	bar      *mpb.Bar
}

func (m *barMeter) Add(n int64) { m.bar.IncrInt64(n) }

// Done leaves the bar as it is, complete or not.
func (m *barMeter) Done() {
	m.bar.Abort(false)
	m.progress.Wait()
}
