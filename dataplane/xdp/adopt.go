package xdp

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// File is a descriptor of the bpf_link for another process (Adopt). It is the caller's.
func (a *Attachment) File() (*os.File, error) {
	raw, ok := a.link.(interface{ FD() int })
	if !ok {
		return nil, errors.New("the XDP program's link has no descriptor")
	}
	fd, err := unix.FcntlInt(uintptr(raw.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("copy the descriptor of the XDP program's link: %w", err)
	}
	return os.NewFile(uintptr(fd), "xdp-link"), nil
}

// Adopt makes an attachment of the link that another process has, in a mode, of an interface. Until Commit the other process's program
// stays: Replace only notes the program that comes. The descriptor is the attachment's, also where Adopt fails.
func Adopt(fd, ifindex int, mode Mode, noNative error) (*Attachment, error) {
	l, err := link.NewFromFD(fd)
	if err != nil {
		return nil, fmt.Errorf("take over the XDP program's link: %w", err)
	}
	a := &Attachment{link: l, mode: mode, ifindex: ifindex, noNative: noNative, adopted: true}
	info, err := l.Info()
	if err == nil && (info.XDP() == nil || int(info.XDP().Ifindex) != ifindex) {
		err = fmt.Errorf("the link is not that of interface %d", ifindex)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take over the XDP program's link: %w", err), l.Close())
	}
	return a, nil
}

// Commit attaches the program that Replace noted last, from which on Replace does so at once.
func (a *Attachment) Commit() error {
	a.adopted = false
	if a.next == nil {
		return nil
	}
	p := a.next
	a.next = nil
	return a.update(p)
}
