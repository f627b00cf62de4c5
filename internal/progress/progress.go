// Package progress shows on a terminal how far a long task is.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

const width = 60

// Bytes draws how many of total bytes have been read, if w is a terminal, until stop is called. Of few bytes it
// draws nothing. read is called from a goroutine.
func Bytes(w io.Writer, name string, total int64, read func() int64) (stop func()) {
	const least = 16 << 20
	if total < least || !Terminal(w) {
		return func() {}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(width))
	bar := p.AddBar(total,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" "), decor.CountersKibiByte("% .1f / % .1f")),
		mpb.AppendDecorators(decor.Percentage()),
	)
	done := make(chan struct{})
	var drawn sync.WaitGroup
	drawn.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				bar.Abort(true)
				return
			case <-tick.C:
			}
			bar.SetCurrent(min(read(), total-1)) // all of it would end the bar before the task
		}
	})
	return func() {
		close(done)
		drawn.Wait()
		p.Wait()
	}
}

// lineInterval is the time between the lines that replace a bar where there is no terminal.
const lineInterval = 10 * time.Second

// Steps shows how many steps of a task are done: a bar if w is a terminal, else a line every ten seconds.
// report may be called from several goroutines; stop is called at the end.
func Steps(w io.Writer, name string) (report func(done, total int, step string), stop func()) {
	if !Terminal(w) {
		return lines(w, name, lineInterval)
	}
	var mu sync.Mutex
	now := ""
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(width))
	bar := p.AddBar(0,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d "), decor.Any(func(decor.Statistics) string {
			mu.Lock()
			defer mu.Unlock()
			return now
		})),
	)
	report = func(done, total int, step string) {
		mu.Lock()
		now = step
		mu.Unlock()
		bar.SetTotal(int64(total), false)
		bar.SetCurrent(int64(done))
	}
	return report, func() {
		bar.Abort(true)
		p.Wait()
	}
}

// lines writes the last step reported, also if it is not a new one: the line shows that a long step goes on.
func lines(w io.Writer, name string, interval time.Duration) (report func(done, total int, step string), stop func()) {
	var mu sync.Mutex
	at := "begins"
	ended, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		begin := time.Now()
		for {
			select {
			case <-ended:
				return
			case now := <-tick.C:
				mu.Lock()
				line := fmt.Sprintf("%s: %s, after %v\n", name, at, now.Sub(begin).Round(time.Second))
				mu.Unlock()
				_, _ = io.WriteString(w, line) // a task does not fail with its progress
			}
		}
	}()
	report = func(done, total int, step string) {
		mu.Lock()
		defer mu.Unlock()
		at = fmt.Sprintf("%d of %d steps", done, total)
		if step != "" {
			at += ", now " + step
		}
	}
	return report, func() {
		close(ended)
		<-written
	}
}
