//go:build !amd64 || purego

package l2

// wide: only lookups_amd64.s compares several words at once.
var wide = false

func touchWide(*bucket, *lookups, int)             { panic("l2: no wide lookups") }
func matchWide(*bucket, *lookups, int, uint64) int { panic("l2: no wide lookups") }
func placeWide(*bucket, *lookups, *[maxLookups]uint64, int, *layout, *mixer) {
	panic("l2: no wide lookups")
}
