// Package univmon answers many questions from one structure: frequencies, heavy
// flows, cardinality, entropy, moments. It is UnivMon of Liu, Manousis,
// Vorsanger, Sekar and Braverman, "One sketch to rule them all", SIGCOMM 2016.
//
// A hash gives each flow a level: l with probability 2^-(l+1), the last level all
// that is left. The substream of level l is the flows of level l and above, a
// 2^-l sample of all flows. From the heavy flows of each substream follows
// any sum of g(f) over all flows, by the recursion (paper, Algorithm 2)
//
//	Y(last) = sum of g over its heavy flows
//	Y(l)    = 2 Y(l+1) + sum over the heavy flows of l of g, times
//	          +1 for a flow of level l, -1 for one of a level above
//
// What differs from the paper:
//
//   - A flow updates the Count Sketch row of its own level alone, not those of all
//     levels up to it. The substream of l is the rows from l upwards, so nothing is
//     lost; a packet costs one cell instead of two, and a flow's estimate is
//     disturbed by the flows of its level only, a 2^-(l+1) part of all.
//   - Candidates are kept per level in the same way; those of a substream are
//     the union over its levels.
//   - The recursion is summed in closed form: a flow that is heavy from substream l
//     upwards counts 2^l times (its terms telescope), which is the inverse
//     of its chance to be seen. So each answer also has a standard error.
//
// A Fragment is one row per level, what one switch of DiSketch holds.
package univmon
