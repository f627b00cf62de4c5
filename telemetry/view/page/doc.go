// Package page is the collector's page: the topology with what its links carry, the
// largest flows and the path of each, who talks to whom, volume, entropy and number
// of flows over time, and the health of the switches. It is plain HTML, CSS and ES modules, built
// into the binary, and loads nothing from elsewhere.
//
//	browser ── GET / ──────────────────────────> page.Handler   the assets
//	   │ ───── POST /weir.query.v1.QueryService/ ─> view/api      questions and answers
//
// The page computes no answer: it asks, and draws values with their bounds and with
// what was missing. Who writes which part of the assets:
//
//	main.js      what is shown: window, interval, pause; asks each panel's question
//	api.js       the two ends of a question, faults as sentences
//	topology.js  the drawing of switches and links; arrange.js places them by layout.js and labels.js
//	flows.js     the largest flows, and the choice of one; flow.js all about that one
//	search.js    what a search means, and what completes it
//	talkers.js   who talks to whom: the largest flows by groups of their ends
//	chart.js     a value over time with its bounds as a band
//	switches.js  health of the switches; inspector.js one switch or link in a dialogue,
//	             with history.js what its ports carried
//	export.js    pictures as PNG, tables as CSV
//	basis.js     what an answer rests on, and what was missing
//	dom.js, format.js  elements and numbers
//	theme.js     light and dark, before the first drawing
//
// Names of switches and flows come from the senders of records. They enter the document as text
// alone, and the content security policy forbids what is not one of these files.
package page
