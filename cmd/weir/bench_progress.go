package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/weirswitch/weir/bench"
)

// progressEvery is the time between the lines that stand for a bar where there is no terminal.
const progressEvery = 10 * time.Second

// benchProgress shows how far a measurement of several steps is: a bar if w is a terminal, else a
// line every ten seconds. Steps may be reported from several goroutines. Call stop at the end.
func benchProgress(w io.Writer, name string) (progress bench.Progress, stop func()) {
	if !isTerminal(w) {
		return progressLines(w, name, progressEvery)
	}
	var mu sync.Mutex
	step := ""
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(60))
	bar := p.AddBar(0,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(decor.CountersNoUnit("%d of %d "), decor.Any(func(decor.Statistics) string {
			mu.Lock()
			defer mu.Unlock()
			return step
		})),
	)
	progress = func(done, total int, what string) {
		mu.Lock()
		step = what
		mu.Unlock()
		bar.SetTotal(int64(total), false)
		bar.SetCurrent(int64(done))
	}
	return progress, func() {
		bar.Abort(true)
		p.Wait()
	}
}

// progressLines writes the last step reported, whether or not it is a new one: that a long step
// goes on is news too.
func progressLines(w io.Writer, name string, every time.Duration) (progress bench.Progress, stop func()) {
	var mu sync.Mutex
	at := "begins"
	ended, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		tick := time.NewTicker(every)
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
				_, _ = io.WriteString(w, line) // progress that nobody can read ends no measurement
			}
		}
	}()
	progress = func(done, total int, what string) {
		mu.Lock()
		defer mu.Unlock()
		at = fmt.Sprintf("%d of %d steps", done, total)
		if what != "" {
			at += ", now " + what
		}
	}
	return progress, func() {
		close(ended)
		<-written
	}
}
