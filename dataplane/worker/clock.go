package worker

import "time"

// clockBase anchors the monotonic times that goroutines tell each other.
var clockBase = time.Now()
