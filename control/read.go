package control

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/weirswitch/weir/control/api"
)

// reader answers the calls that read.
type reader struct{ sw Switch }

var _ api.SwitchHandler = (*reader)(nil)

func (r *reader) Version(context.Context, *api.VersionRequest) (*api.VersionResponse, error) {
	return r.sw.Version(), nil
}

func (r *reader) Report(context.Context, *api.ReportRequest) (*api.ReportResponse, error) {
	return r.sw.Report(), nil
}

func (r *reader) Ports(context.Context, *api.PortsRequest) (*api.PortsResponse, error) {
	return &api.PortsResponse{Ports: r.sw.Report().Ports}, nil
}

func (r *reader) Stages(context.Context, *api.StagesRequest) (*api.StagesResponse, error) {
	return &api.StagesResponse{Stages: r.sw.Report().Stages}, nil
}

func (r *reader) Workers(context.Context, *api.WorkersRequest) (*api.WorkersResponse, error) {
	return &api.WorkersResponse{Workers: r.sw.Report().Workers}, nil
}

func (r *reader) Metrics(context.Context, *api.MetricsRequest) (*api.MetricsResponse, error) {
	return &api.MetricsResponse{Metrics: r.sw.Metrics(), Records: r.sw.Records()}, nil
}

func (r *reader) Config(context.Context, *api.ConfigRequest) (*api.ConfigResponse, error) {
	return &api.ConfigResponse{Toml: r.sw.Config()}, nil
}

func (r *reader) Pint(context.Context, *api.PintRequest) (*api.PintReport, error) {
	answer, ok := r.sw.Pint()
	return answerOf(answer, ok, "digests", "pint")
}

func (r *reader) Acl(context.Context, *api.AclRequest) (*api.AclResponse, error) {
	answer, ok := r.sw.Acl()
	return answerOf(answer, ok, "access control list", "acl")
}

func (r *reader) Routes(context.Context, *api.RoutesRequest) (*api.RoutesResponse, error) {
	answer, ok := r.sw.Routes()
	return answerOf(answer, ok, "routes", "l3")
}

func (r *reader) Neighbours(context.Context, *api.NeighboursRequest) (*api.NeighboursResponse, error) {
	answer, ok := r.sw.Neighbours()
	return answerOf(answer, ok, "neighbours", "l3")
}

func (r *reader) Bonds(context.Context, *api.BondsRequest) (*api.BondsResponse, error) {
	answer, ok := r.sw.Bonds()
	return answerOf(answer, ok, "bonds", "bond")
}

func (r *reader) Lldp(context.Context, *api.LldpRequest) (*api.LldpResponse, error) {
	answer, ok := r.sw.Lldp()
	return answerOf(answer, ok, "LLDP", "lldp")
}

func (r *reader) Groups(context.Context, *api.GroupsRequest) (*api.GroupsResponse, error) {
	answer, ok := r.sw.Groups()
	if !ok {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("this switch has no groups: set snooping = true in [stages.l2]"))
	}
	return answer, nil
}

// answerOf refuses what the graph has no stage for.
func answerOf[T any](answer *T, ok bool, what, stage string) (*T, error) {
	if !ok {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("this switch has no %s: its graph has no stage %s", what, stage))
	}
	return answer, nil
}

// fdbPiece is how many entries one message carries, about 40 KiB.
const fdbPiece = 1024

func (r *reader) Fdb(_ context.Context, _ *api.FdbRequest, stream *connect.ServerStream[api.FdbResponse]) error {
	entries, ok := r.sw.Fdb()
	if !ok {
		return connect.NewError(connect.CodeFailedPrecondition,
			errors.New("this switch has no forwarding database: its graph has no stage l2"))
	}
	piece := &api.FdbResponse{}
	for e := range entries {
		if piece.Entries = append(piece.Entries, e); len(piece.Entries) == fdbPiece {
			if err := stream.Send(piece); err != nil {
				return err
			}
			piece = &api.FdbResponse{}
		}
	}
	if len(piece.Entries) == 0 {
		return nil
	}
	return stream.Send(piece)
}
