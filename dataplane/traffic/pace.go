package traffic

import "time"

// pacer tells how many packets are due. It is the twin of the pacing in bpf/live.c.
// Times are ns << rateShift after the start.
type pacer struct {
	interval uint64 // 0: always due
	maxLag   uint64
	next     uint64
}

func newPacer(load Load) pacer {
	if load.Rate == 0 {
		return pacer{}
	}
	interval := 1e9 * (1 << rateShift) / load.Rate
	return pacer{interval: uint64(interval + 0.5), maxLag: uint64(interval * float64(load.catchUp()))}
}

// gap implements pace.
func (p *pacer) gap() time.Duration { return time.Duration(p.interval >> rateShift) }

// due implements pace.
func (p *pacer) due(elapsedNs uint64, limit int) (n int, wait uint64) {
	if p.interval == 0 {
		return limit, 0
	}
	at := elapsedNs << rateShift
	if at < p.next {
		return 0, (p.next - at + 1<<rateShift - 1) >> rateShift
	}
	if lag := at - p.next; lag > p.maxLag {
		p.next = at - p.maxLag
	}
	n = min(limit, int((at-p.next)/p.interval)+1)
	p.next += uint64(n) * p.interval
	return n, 0
}
