package collect

// RegionStatus is what passed between a collector and another region since it began.
type RegionStatus struct {
	Name string
	// Asked questions, and Unreached ones to which the region is missing in the answer.
	Asked, Unreached uint64
	ReceivedBytes    uint64
}
