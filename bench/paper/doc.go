// Package paper measures what the papers behind Weir's telemetry state, one
// file per figure, beside their rivals. Each measurement is a function from
// Options to rows; what a row means beyond its name is at its function.
//
// All randomness comes from the seed: the same seed gives the same rows on any
// machine.
package paper
