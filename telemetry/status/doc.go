// Package status is what a switch says of itself about once a second, and its
// codec: ports, measurements, the record path, the clock and the workers.
//
// All counts are since the switch began, so that rates are differences of two
// statuses with the same [Status.Boot], however many are missing between them.
package status
