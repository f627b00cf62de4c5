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
		if n == 1 {
			results = append(results, l.traffic(ctx, l.config.Traffic[i], i, l.progress))
		} else {
			results = append(results, l.together(ctx, i, n)...)
		}
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

// together carries out n loads at the same time. Bars would write over each other.
func (l *Lab) together(ctx context.Context, first, n int) []Result {
	l.progress.Step("%d loads of group %s", n, l.config.Traffic[first].Group)
	results := make([]Result, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i] = l.traffic(ctx, l.config.Traffic[first+i], first+i, silent{}) })
	}
	all.Wait()
	return results
}
