package main

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/pcapfile"
)

// progressFrom is the size of captures from which a bar is worth its lines.
const progressFrom = 16 << 20

// showProgress draws how much of the captures was read, if w is a terminal,
// until the returned function is called.
func showProgress(w io.Writer, ins []*pcapfile.In) (stop func()) {
	var total int64
	for _, in := range ins {
		_, size := in.Progress()
		total += size
	}
	if total < progressFrom || !isTerminal(w) {
		return func() {}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(60))
	bar := p.AddBar(total,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name("replay "), decor.CountersKibiByte("% .1f / % .1f")),
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
			var read int64
			for _, in := range ins {
				n, _ := in.Progress()
				read += n
			}
			// Never to the end: the bar would be complete before the last packet.
			bar.SetCurrent(min(read, total-1))
		}
	})
	return func() {
		close(done)
		drawn.Wait()
		p.Wait()
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
