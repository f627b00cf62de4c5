// Package scale counts what a network of many switches makes of records, and what a collector needs for them: from the
// sizes of real records, which one simulated switch makes in a second at its full rate, with the default
// configurations of its stages.
package scale
