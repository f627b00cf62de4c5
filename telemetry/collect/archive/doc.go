// Package archive keeps the records of a network for longer than the stream does, in Parquet files on disk or in a store that
// speaks S3's protocol.
//
//	stream WEIR ── a reader per kind ──> staged file ── flush ──> bucket: records/kind=K/day=D/NAME.parquet ──> Index
//	                                                                        │
//	question about a window that memory has not ── Load <───────────────────┘
//
// A file has records of one kind: those of a range of the stream's sequence numbers in some partitions, which its name says
// (File). It is in the bucket whole or not at all, so the names say what is archived: there is no other
// state to keep. A writer that starts goes on after the last sequence number that a name has.
//
// A row has a record as it was published, and its header as columns, for engines of SQL.
package archive
