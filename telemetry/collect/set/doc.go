// Package set lets collectors that share PINT's digests answer as one: each of them asks the others for what a question needs of their
// partitions, over NATS.
//
//	a question ── query.Needs ──> Fetch ── weir.digests.PARTITION ──> Member of who holds it ── a page of records ──> store.With ──> Engine.Ask
//
// A request is for a partition, not for a member: members listen to the subjects of theirs as one queue, so that while a partition moves
// either one answers. An answer is a page, at most some megabytes; the next one is asked for by the mark behind its last record, which
// holds in every view of the same records. A partition that no member serves is known at once, as servers say that there are no
// responders; one whose holder is silent after a time.
//
// Members that share the partitions among them say once a second that they are there, and which ones they hold. Each computes the same
// plan of who is to have which, from the names of those that it hears. A partition moves in this order: its new holder reads it from the
// stream's beginning, and serves it; the old one stops when it hears so from a member that knows of the same members: one that knows of others
// may be about to give the partition back.
package set
