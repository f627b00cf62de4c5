// Package text writes the answers of a network as text for terminals: tables, and below them what the answer rests on
// and what was missing. Beside them it has the status of a collector, the table that all commands of weir print, and
// the screen of a question that is asked again and again.
package text
