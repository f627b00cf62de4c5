package bench

import "context"

// Benchmark is one measurement as the command line knows it.
type Benchmark struct {
	// Name is the Result's: "paper/pint-fig5".
	Name string
	// About says in one clause what it measures.
	About string
	// Run measures. It gives up, with the context's error, when the context ends.
	Run func(ctx context.Context, o Options) (*Result, error)
}

// Options are what all measurements understand.
type Options struct {
	Seed uint64
	// Quick asks for a run of seconds, with wider error bounds, instead of minutes.
	Quick bool
	// Progress is called for each step; nil: no progress is reported.
	Progress Progress
}

// Progress reports that done of total steps are finished, and what comes now. It is called from one
// goroutine.
type Progress func(done, total int, what string)

// Report calls the function if there is one.
func (p Progress) Report(done, total int, what string) {
	if p != nil {
		p(done, total, what)
	}
}
