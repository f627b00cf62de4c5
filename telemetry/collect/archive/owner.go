package archive

import (
	"context"
	"errors"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/record"
)

// ownership is which partitions the collector archives. Where collectors share them it changes:
//
//	Own(without one) ── its file is put ── Owns has it no more ── another collector reads the names of files, and goes on behind the last
//
// It is guarded by the archive's lock.
type ownership struct {
	wanted    collect.Mask  // that are the collector's
	writing   collect.Mask  // that it reads or has staged
	confirmed time.Time     // when Own was called last
	changed   chan struct{} // holds one token
}

var (
	// errOwners ends writers whose partitions have changed.
	errOwners = errors.New("the partitions have changed")
	// errUnconfirmed says that other collectors may have taken the partitions meanwhile.
	errUnconfirmed = errors.New("it is not known whether other collectors archive the partitions by now: what was staged is read again")
)

// confirmWait is how long a collector that shares partitions takes them for its own: shorter than the silence behind which others take
// them.
const confirmWait = 2500 * time.Millisecond

// Own has the collector archive these partitions, where it shares them with others. It is to be called again and again: a collector that
// was suspended must not put what others have archived meanwhile.
func (a *Archive) Own(m collect.Mask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.confirmed = time.Now()
	if m == a.wanted {
		return
	}
	a.wanted = m
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// Owns are the partitions that the collector archives now.
func (a *Archive) Owns() collect.Mask {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.writing
}

// take begins with what is wanted.
func (a *Archive) take() collect.Mask {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.changed: // as is known from here on
	default:
	}
	a.writing = a.wanted
	return a.writing
}

// release says that nothing is staged any more.
func (a *Archive) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writing = 0
}

// confirm reports whether what is staged is the collector's to put.
func (a *Archive) confirm() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.config.Partitions.Share || time.Since(a.confirmed) < confirmWait
}

// Refresh finds the files that other collectors have put.
func (a *Archive) Refresh(ctx context.Context) error {
	if err := a.await(ctx); err != nil {
		return err
	}
	return a.index.read(ctx, a.bucket, a.index.newer()...)
}

// Covers is up to when a partition's digests are archived, by their arrival in the stream, in ns of CLOCK_TAI; 0: none are.
func (a *Archive) Covers(partition int) int64 {
	if at := a.index.arrived(record.PINT, partition); at != 0 {
		return at + clock.UTCOffset()
	}
	return 0
}
