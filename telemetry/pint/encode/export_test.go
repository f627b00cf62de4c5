package encode

// What the tests of package encode_test look at, which go through package plan.

func (s *Step) Seed() uint64        { return s.seed }
func (s *Step) CounterOf() *Counter { return s.counter }
func (s *Step) LoopsOf() *Loops     { return s.loops }
