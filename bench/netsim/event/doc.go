// Package event is the clock of a discrete event simulation: a queue of what is
// to happen at which time. Events are numbers, whose meaning is the caller's, so that a
// simulator dispatches them by a switch statement; nothing is allocated or called per event.
package event
