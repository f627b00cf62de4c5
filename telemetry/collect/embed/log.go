package embed

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// logger writes what the server says of itself to the collector's log: what it
// merely notes at level debug, and no more than a few lines per second, because
// clients that are refused cause one each.
type logger struct {
	log *zap.Logger

	mu     sync.Mutex
	second int64
	lines  int
}

// maxLines bounds the lines of one second.
const maxLines = 20

// enough reports whether this second has had its lines, and says so once.
func (l *logger) enough() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now().Unix(); now != l.second {
		l.second, l.lines = now, 0
	}
	l.lines++
	if l.lines == maxLines+1 {
		l.log.Warn("more lines of this second are left out")
	}
	return l.lines > maxLines
}

// Noticef implements server.Logger.
func (l *logger) Noticef(format string, v ...any) { l.log.Sugar().Debugf(format, v...) }

// Warnf implements server.Logger.
func (l *logger) Warnf(format string, v ...any) {
	if !l.enough() {
		l.log.Sugar().Warnf(format, v...)
	}
}

// Errorf implements server.Logger.
func (l *logger) Errorf(format string, v ...any) {
	if !l.enough() {
		l.log.Sugar().Errorf(format, v...)
	}
}

// Fatalf implements server.Logger. The server goes on or shuts itself down; the
// process is not its own to end.
func (l *logger) Fatalf(format string, v ...any) { l.Errorf(format, v...) }

// Debugf implements server.Logger.
func (l *logger) Debugf(string, ...any) {}

// Tracef implements server.Logger.
func (l *logger) Tracef(string, ...any) {}
