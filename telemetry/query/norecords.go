package query

import (
	"fmt"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/store"
)

// Lacking is why no record of a window answers a question.
type Lacking struct {
	What   string       // the records are of
	Remedy string       // what makes such records
	Window store.Window // that was asked about
	Have   store.Window // of all records of this kind that are there; the zero window: there are none
	Newest int64        // end of the newest record of any kind, from which windows of a folder are counted back
	Now    int64        // by the clock of who asks, in ns of CLOCK_TAI; 0: records of a folder are asked
}

// Err is an ErrNoRecords that names what is missing: where such records are there, their time and how to ask about it, else what makes some.
func (l Lacking) Err() error {
	if l.Have == (store.Window{}) {
		return fmt.Errorf("%w of %s in the window: %s, or ask about another window", ErrNoRecords, l.What, l.Remedy)
	}
	have := timesOf(l.Have)
	own := fmt.Sprintf("ask about their time (--start %s --end %s)", have[0], have[1])
	now, since := l.Now, "ago"
	if now == 0 {
		now, since = l.Newest, "before the newest record of any kind, from which --last counts"
	}
	age := time.Duration(now - l.Have.To)
	if age <= 0 || l.Have.To > l.Window.From {
		asked := timesOf(l.Window)
		return fmt.Errorf("%w of %s from %s to %s: there are some from %s to %s: %s", ErrNoRecords, l.What, asked[0], asked[1], have[0], have[1], own)
	}
	last := age.Truncate(time.Minute) + 2*time.Minute // time goes on until the question is asked again
	return fmt.Errorf("%w of %s in the window: the newest is of %s, %v %s: ask about a longer one (--last %v), or %s",
		ErrNoRecords, l.What, have[1], age.Round(time.Second), since, last, own)
}

// timesOf are the ends of a window as --start and --end take them, with whole seconds around it.
func timesOf(w store.Window) (ends [2]string) {
	for i, tai := range []int64{w.From, w.To + int64(time.Second) - 1} {
		ends[i] = time.Unix(0, tai-clock.UTCOffset()).UTC().Format(time.RFC3339)
	}
	return ends
}

// none is the error of a question about a measurement of which the window has no record. have is of the records of it from all times.
func (e *Engine) none(what, remedy string, have store.Window) error {
	if e.piece {
		return fmt.Errorf("%w of %s in this step", ErrNoRecords, what)
	}
	return Lacking{What: what, Remedy: remedy, Window: e.window(), Have: have, Newest: e.Store.All().To, Now: e.Now}.Err()
}
