package path

// What the tests of package path_test use, which go through package sink.
var (
	NewSlowCandidates = newSlowCandidates
	NewSlowWalks      = newSlowWalks
	RingWithChords    = ringWithChords
	RandomPath        = randomPath
	MustStatic        = mustStatic
)
