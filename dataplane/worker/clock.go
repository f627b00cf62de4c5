package worker

import (
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
)

// clockBase anchors the monotonic times that goroutines exchange.
var clockBase = time.Now()

// clockSource is what the clocks of workers read. Tests replace it by one that jumps.
var clockSource clock.Source
