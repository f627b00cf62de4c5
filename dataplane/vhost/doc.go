// Package vhost is the back-end of vhost-user (QEMU's docs/interop/vhost-user.rst): it speaks with a front-end, a
// virtual machine's monitor or a driver in user space, over a Unix socket, maps the guest's memory, and keeps the
// rings of a network device for the workers.
//
//	front-end ── messages, descriptors ──> Device (a goroutine) ── starts, stops ──> Vring <── Acquire, Release ── worker
//
// A Vring has a lock. A worker takes it once per batch, gives up after some microseconds, and then finds nothing
// to do. So when a message that stops a ring or unmaps memory is answered, no worker uses
// them any more.
//
// The guest and its front-end are hostile. Messages have a bounded length, memory is mapped only if its file is long
// enough (fstat) and regions do not overlap, and rings check all that they read (package virtio). A file that is
// truncated later raises SIGBUS at the access. Acquire makes that a panic of the goroutine (debug.SetPanicOnFault) and Release
// recovers it, breaks the ring, and has the Device close the connection. The alternatives cost more: a copy by
// process_vm_readv is a system call per batch, and sealed files (F_SEAL_SHRINK) are not what front-ends send.
//
// What is mapped changes only while all rings stand still (Device.remap): the guest's memory, in one table or region by region;
// the log of dirty pages, in which a ring marks all that it writes while the guest migrates; and the tracking of buffers in
// flight, with which a packed ring goes on after a back-end that ended at any point.
//
// Checksums and segmentation of a guest are completed when its packets arrive (docs/decisions/0019). Large packets pass as they are
// between guests that take them (docs/decisions/0022).
package vhost
