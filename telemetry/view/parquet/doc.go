// Package parquet writes answers and records as tables in Apache Parquet files, for what reads these: one row
// per flow, hop, point, and so on, with typed columns.
//
// Next to the rows a file says, as key-value metadata of the file:
//
//	weir.table                 the name of the table: "heavy-hitters", "records.samples", ...
//	weir.unit.COLUMN           the unit of a column: "ns", "packets", "share", ...
//	weir.from_ns, weir.to_ns   the window, in ns of CLOCK_TAI
//	weir.confidence            of all bounds
//	weir.records, .switches    what the answer rests on
//	weir.missing               what was missing, as JSON
//	weir.summary               all else that the answer says, as JSON
//
// Moments are timestamps in UTC, in columns whose names end in _time. Columns whose names end in _low and _high are bounds
// of the column before them; what is not known is null.
package parquet
