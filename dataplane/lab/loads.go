package lab

import (
	"context"
	"slices"
	"sync"
)

// loads carries out all loads of the file: one behind the other, those of a group at the same time.
func (l *Lab) loads(ctx context.Context) []Result {
	results := make([]Result, 0, len(l.config.Traffic))
	for i := 0; i < len(l.config.Traffic) && ctx.Err() == nil; {
		if i > 0 && l.config.keepsRecords() && (l.config.Traffic[i].Kind == KindFlows) != (l.config.Traffic[i-1].Kind == KindFlows) {
			l.rest(ctx) // so that the flows have their own epochs
		}
		n := l.config.groupAt(i)
		watched := l.watchWaits(i, n)
		results = append(results, l.together(ctx, l.config.Traffic[i:i+n], i)...)
		watched()
		i += n
	}
	return results
}

// groupAt is how many loads from the i-th on run at the same time.
func (c *Config) groupAt(i int) int {
	group := c.Traffic[i].Group
	if group == "" {
		return 1
	}
	n := slices.IndexFunc(c.Traffic[i:], func(t Traffic) bool { return t.Group != group })
	if n < 0 {
		n = len(c.Traffic) - i
	}
	return n
}

// together carries out loads at the same time, of which the file has the first one as number first. One of them may cut a cable, which is mended behind the last. Bars of
// several would write over each other.
func (l *Lab) together(ctx context.Context, loads []Traffic, first int) []Result {
	progress := l.progress
	if len(loads) > 1 {
		l.progress.Step("%d loads of group %s", len(loads), loads[0].Group)
		progress = silent{}
	}
	var cut *cutting
	cutter := slices.IndexFunc(loads, func(t Traffic) bool { return t.Cut != "" })
	if cutter >= 0 {
		cut = l.cuttingOf(&loads[cutter], progress)
	}
	results := make([]Result, len(loads))
	var all sync.WaitGroup
	for i, t := range loads {
		all.Go(func() {
			if i == cutter {
				results[i] = l.traffic(ctx, t, first+i, cut)
				return
			}
			if cut != nil {
				t.Cut = loads[cutter].Cut // it may lose packets there, too
			}
			results[i] = l.traffic(ctx, t, first+i, progress)
		})
	}
	all.Wait()
	if cut == nil {
		return results
	}
	if err, r := l.mend(ctx, &loads[cutter], cut), &results[cutter]; err != nil && r.Fault == "" && !r.Interrupted {
		r.Fault = err.Error()
	}
	return results
}
