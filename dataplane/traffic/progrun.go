package traffic

import (
	"errors"
	"math"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// wakeSignal interrupts BPF_PROG_RUN. The Go runtime has a handler for each
// real-time signal, which does nothing without a handler for the signal.
const wakeSignal = unix.Signal(0x24)

// progRunAttr is the member "test" of union bpf_attr (include/uapi/linux/bpf.h).
type progRunAttr struct {
	progFD, retval               uint32
	dataSizeIn, dataSizeOut      uint32
	dataIn, dataOut              uint64
	repeat, duration             uint32
	ctxSizeIn, ctxSizeOut        uint32
	ctxIn, ctxOut                uint64
	flags, cpu, batchSize, pad32 uint32
}

// xdpMD is struct xdp_md.
type xdpMD struct {
	data, dataEnd, dataMeta, ingressIfindex, rxQueueIndex, egressIfindex uint32
}

// runLiveFrames runs the program on pages that hold the given frame, 2^32-1 times or
// until a signal arrives. It returns true when a signal ended it.
//
// ebpf.Program.Run is not used because it starts anew after each signal, and a signal
// is the only means to end a run early.
func runLiveFrames(prog *ebpf.Program, frame []byte, batch int) (interrupted bool, err error) {
	ctx := xdpMD{dataEnd: uint32(len(frame))}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&frame[0])
	pinner.Pin(&ctx)
	attr := progRunAttr{
		progFD:     uint32(prog.FD()),
		dataSizeIn: uint32(len(frame)),
		dataIn:     uint64(uintptr(unsafe.Pointer(&frame[0]))),
		repeat:     math.MaxUint32,
		ctxSizeIn:  uint32(unsafe.Sizeof(ctx)),
		ctxIn:      uint64(uintptr(unsafe.Pointer(&ctx))),
		flags:      unix.BPF_F_TEST_XDP_LIVE_FRAMES,
		batchSize:  uint32(batch),
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(prog)
	switch {
	case errno == 0:
		return false, nil
	case errors.Is(errno, unix.EINTR):
		return true, nil
	}
	return false, os.NewSyscallError("bpf", errno)
}

// blockSignals keeps all signals but wakeSignal from the calling thread, so that
// neither the runtime's preemption nor a child's end interrupts a run. It stores the
// mask to restore.
func blockSignals(before *unix.Sigset_t) error {
	var set unix.Sigset_t
	for i := range set.Val {
		set.Val[i] = math.MaxUint64
	}
	set.Val[0] &^= 1 << (uint(wakeSignal) - 1)
	return os.NewSyscallError("rt_sigprocmask", unix.PthreadSigmask(unix.SIG_SETMASK, &set, before))
}
