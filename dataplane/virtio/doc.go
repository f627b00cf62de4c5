// Package virtio is the device's side of virtqueues, split and packed, as virtio 1.3 defines
// them (sections 2.7 and 2.8), for network packets (section 5.1.6).
//
//	driver (guest)                      device (Weir)
//	transmit queue ── available ──>  Ring.Get: one packet into the caller's memory
//	receive queue  <── used ───────  Ring.Put: one packet from the caller's memory
//
// The driver is hostile: it can write to the ring and the buffers at any time. So every index, length, address
// and flag is read once, into private memory, checked there, and never read again. A chain of descriptors is
// bounded by the ring's size and by maxSegments, so a loop ends. What is refused is counted by its Fault. A
// fault of one chain costs that chain; a fault after which the ring cannot be followed breaks the ring: Get and
// Put do nothing more until there is a new one.
//
// Memory that the driver's process takes away (a file that was truncated) raises SIGBUS at
// the access. The caller guards its calls with debug.SetPanicOnFault.
//
// Nothing here allocates, locks or calls through an interface for a packet. Numbers are little-endian, as
// virtio 1 wants them; so is every processor that Weir runs on.
package virtio
