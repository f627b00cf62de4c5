package lab

// Progress receives what a lab is doing. All methods are called from one goroutine at a time.
type Progress interface {
	// Step says what begins now.
	Step(format string, args ...any)
	// Begin starts a measured piece of work and returns what counts it.
	Begin(what string, total int64) Meter
}

// Meter counts work done. Add may be called from several goroutines.
type Meter interface {
	Add(n int64)
	Done()
}

// silent is the Progress that shows nothing.
type silent struct{}

func (silent) Step(string, ...any)       {}
func (silent) Begin(string, int64) Meter { return silent{} }
func (silent) Add(int64)                 {}
func (silent) Done()                     {}
