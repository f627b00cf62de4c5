// Package bench is what all of Weir's measurements have in common: the result that each of
// them gives, as a table for readers and as JSON for programs, and the form in which the
// command line knows them.
package bench
