package worker

import (
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
)

// clockBase anchors the monotonic times that goroutines tell each other.
var clockBase = time.Now()

// clockSource is what the clocks of workers read. Tests put in its place one that jumps.
var clockSource clock.Source
