package main

import (
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/worker"
)

// reportMessage is a worker.Report as a message of the API. Both have the same
// JSON form; a test sees that no field is forgotten.
func reportMessage(r *worker.Report) *api.ReportResponse {
	m := &api.ReportResponse{
		Name: r.Name, Id: r.ID, Modes: r.Modes,
		Received: r.Received, Forwarded: r.Forwarded, Consumed: r.Consumed, Dropped: r.Dropped,
		Copies: fateMessage(&r.Copies), Frames: framesMessage(&r.Frames), Balanced: r.Balanced,
	}
	for i := range r.Ports {
		m.Ports = append(m.Ports, portMessage(&r.Ports[i]))
	}
	for i := range r.Stages {
		m.Stages = append(m.Stages, stageMessage(&r.Stages[i]))
	}
	for i := range r.Workers {
		m.Workers = append(m.Workers, workerMessage(&r.Workers[i]))
	}
	return m
}

func fateMessage(f *worker.Fate) *api.Fate {
	return &api.Fate{Received: f.Received, Forwarded: f.Forwarded, Consumed: f.Consumed, Dropped: f.Dropped}
}

func portMessage(p *worker.PortReport) *api.Port {
	return &api.Port{
		Name: p.Name, Interface: p.Interface, Driver: p.Driver, Mode: p.Mode, Queues: int64(p.Queues),
		Mtu: int64(p.MTU), MaxFrame: int64(p.MaxFrame), Mac: p.MAC, Up: p.Up,
		Index: int64(p.Index), State: string(p.State), Error: p.Error,
		Rebuilds: p.Rebuilds, LinkChanges: p.LinkChanges, TxUnsent: p.TxUnsent,

		RxRingFull: p.RxRingFull, RxNoFrame: p.RxNoFrame, RxDropped: p.RxDropped, RxInvalid: p.RxInvalid,
		TxInvalid: p.TxInvalid, Kept: p.Kept, NoSocket: p.NoSocket,
		LinkTxDrops: p.LinkTxDrops, LinkRxErrors: p.LinkRxErrors,

		Received: p.Received, Forwarded: p.Forwarded, Consumed: p.Consumed, Dropped: p.Dropped,
		Copies:        fateMessage(&p.Copies),
		ReceivedBytes: p.ReceivedBytes, Transmitted: p.Transmitted, TransmittedBytes: p.TransmittedBytes,
	}
}

func stageMessage(s *worker.StageReport) *api.Stage {
	return &api.Stage{
		Name: s.Name, Batches: s.Batches, Packets: s.Packets, Dropped: s.Dropped, Copied: s.Copied,
		SampledPackets: s.SampledPackets, SampledNs: s.SampledNs, NsPerPacket: s.NsPerPacket,
	}
}

func workerMessage(w *worker.WorkerReport) *api.Worker {
	return &api.Worker{
		Id: int64(w.ID), Core: int64(w.Core), Thread: int64(w.Thread), Queues: w.Queues,
		Batches: w.Batches, Packets: w.Packets, HandedOver: w.HandedOver, TakenOver: w.TakenOver,
		Rounds: w.Rounds, Sleeps: w.Sleeps, FreeFrames: int64(w.FreeFrames),
	}
}

func framesMessage(f *worker.FrameReport) *api.Frames {
	return &api.Frames{
		Total: int64(f.Total), Size: int64(f.Size), HugePages: f.HugePages, Audited: f.Audited, Faults: f.Faults,
		Lost: int64(f.Lost), HeldByKernel: int64(f.HeldByKernel), Unconfirmed: int64(f.Unconfirmed),
	}
}
