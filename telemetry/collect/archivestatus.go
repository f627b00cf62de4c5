package collect

import "time"

// ArchiveStatus is how an archive is.
type ArchiveStatus struct {
	// Problem is what does not work now; empty: all does.
	Problem string
	// Files and Bytes are those of the archive, of all collectors.
	Files int
	Bytes int64
	// Records, RecordBytes, WrittenFiles and WrittenBytes are what this collector archived since it began.
	Records, RecordBytes, WrittenFiles, WrittenBytes uint64
	// Skipped messages are not archived for what they are: no records, forged, unkeyed, of a time to come or of too long a slice.
	Skipped uint64
	// Lost messages at most went from the stream before they were archived.
	Lost uint64
	// Failures are attempts to write, list or delete that failed; Deleted the files that retention deleted.
	Failures, Deleted uint64
	// Read are the records that questions read, Broken those of which the checksum was wrong.
	Read, Broken uint64
	// Damaged files are those that questions could not read for what is in them, Gone the ones that were not there any more.
	Damaged int
	Gone    uint64
	// Rollups are those that are there, RollupsDue those that are to be made, where this collector makes them.
	Rollups, RollupsDue int
	RollupBytes         int64
	// RolledUp were made for the first time, RolledUpAgain because records came late; of RollupsCut some records were deleted before; retention deleted RollupsDeleted.
	RolledUp, RolledUpAgain, RollupsCut, RollupsDeleted uint64
	// Lag is how long the oldest record that is read and not archived has been waiting; 0: there is none.
	Lag time.Duration
}
