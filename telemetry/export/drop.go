package export

import (
	"cmp"
	"slices"
)

// The reasons for which a spool drops records.
const (
	DropFull       = "spool_full" // the oldest file went, to keep within the bound
	DropTooLarge   = "too_large"  // larger than the servers take
	DropRefused    = "refused"    // the servers refuse it, for what it is
	DropUnreadable = "unreadable" // the file is gone or changed
	DropCutOff     = "cut_off"    // the switch was killed while it wrote the record
)

// Drop is what was dropped of a kind, for a reason.
type Drop struct {
	Reason string `json:"reason"`
	Tally
}

// mergeDrops adds up drops by kind and reason, and sorts them.
func mergeDrops(lists ...[]Drop) []Drop {
	var all []Drop
	for _, list := range lists {
		for _, d := range list {
			i := slices.IndexFunc(all, func(x Drop) bool { return x.Kind == d.Kind && x.Reason == d.Reason })
			if i < 0 {
				all = append(all, d)
				continue
			}
			all[i].merge(d.Tally)
		}
	}
	slices.SortFunc(all, func(a, b Drop) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
