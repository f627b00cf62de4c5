// Package netns builds networks of Linux network namespaces and veth pairs.
//
// It speaks netlink, ioctl and the mount system call itself, so it needs no
// program beyond the kernel, yet its namespaces are those of iproute2: they are
// bind mounts below /run/netns and `ip netns` lists, enters and deletes them.
//
// A network namespace belongs to an OS thread, not to a process. All code that
// must run inside one therefore goes through [Namespace.Do], which locks a
// thread, switches it, and switches it back. A socket stays for life in the
// namespace it was made in, and a child process starts in the namespace of the
// thread that made it, which is all that [Namespace.Listen],
// [Namespace.Dial] and [Namespace.Start] rely on.
//
// The package needs CAP_SYS_ADMIN (namespaces, mounts) and CAP_NET_ADMIN.
package netns
