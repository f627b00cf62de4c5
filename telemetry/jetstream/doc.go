// Package jetstream is how records travel between switches and collectors: the
// names of the stream, its subjects and its messages, and connections to the NATS
// servers that keep it.
//
//	switch ── Publisher ──> weir.records.KIND.PARTITION.EPOCH.SWITCH ──> stream WEIR ──> collectors
//
// A message is one record as record.Append encodes it, and its id is made of its
// content: what is published twice within the stream's duplicate window is kept
// once.
//
// A secret never leaves its file but towards a server: options hold the names of
// files, which are read anew for each connection, and no error and no text of this
// package has what is in them.
package jetstream
