package disketch

// Segment is a part of an epoch during which a flow kept to one path.
type Segment struct {
	// Switches along the path, first one first.
	Switches []uint64
	// From and To are fractions of the epoch, 0 <= From < To <= 1.
	From, To float64
}

// Paths says which path flows take: decoded from PINT's digests, recomputed from
// the hashes of ECMP, or read from a file.
type Paths interface {
	// Path appends the segments of a flow's path in an epoch to buf, in the order
	// of time and without overlap. None: the path is not known. What the segments
	// do not cover is treated as if the flow had passed no switch then.
	Path(buf []Segment, flow, epoch uint64) []Segment
}

// PathFunc gives paths that do not change within an epoch, as with
// recomputed ECMP; nil from it means that the path is not known.
type PathFunc func(flow uint64) []uint64

// Path gives the flow's one segment.
func (f PathFunc) Path(buf []Segment, flow, _ uint64) []Segment {
	if p := f(flow); len(p) > 0 {
		buf = append(buf, Segment{p, 0, 1})
	}
	return buf
}
