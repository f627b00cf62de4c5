package bmv2

import (
	"context"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"
)

// Of BMv2's Thrift services only a dozen calls are needed, so these are written down
// here instead of generated: a call's arguments are a struct whose fields have numbers, as
// BMv2's standard.thrift, simple_pre_lag.thrift and simple_switch.thrift give them.

// fields are a struct to send: values by field number.
type fields []field

type field struct {
	id    int16
	value any // bool, int32, int64, string, []byte, fields, []fields or [][]byte
}

// Write implements thrift.TStruct.
func (s fields) Write(ctx context.Context, p thrift.TProtocol) error {
	if err := p.WriteStructBegin(ctx, ""); err != nil {
		return err
	}
	for _, f := range s {
		if err := p.WriteFieldBegin(ctx, "", kindOf(f.value), f.id); err != nil {
			return err
		}
		if err := writeValue(ctx, p, f.value); err != nil {
			return err
		}
		if err := p.WriteFieldEnd(ctx); err != nil {
			return err
		}
	}
	if err := p.WriteFieldStop(ctx); err != nil {
		return err
	}
	return p.WriteStructEnd(ctx)
}

// Read implements thrift.TStruct; arguments are never read.
func (fields) Read(context.Context, thrift.TProtocol) error {
	return fmt.Errorf("arguments are not read")
}

func kindOf(value any) thrift.TType {
	switch value.(type) {
	case bool:
		return thrift.BOOL
	case int32:
		return thrift.I32
	case int64:
		return thrift.I64
	case string, []byte:
		return thrift.STRING
	case fields:
		return thrift.STRUCT
	case []fields, [][]byte:
		return thrift.LIST
	}
	panic(fmt.Sprintf("bmv2: no Thrift type for %T", value))
}

func writeValue(ctx context.Context, p thrift.TProtocol, value any) error {
	switch v := value.(type) {
	case bool:
		return p.WriteBool(ctx, v)
	case int32:
		return p.WriteI32(ctx, v)
	case int64:
		return p.WriteI64(ctx, v)
	case string:
		return p.WriteString(ctx, v)
	case []byte:
		return p.WriteBinary(ctx, v)
	case fields:
		return v.Write(ctx, p)
	case []fields:
		if err := p.WriteListBegin(ctx, thrift.STRUCT, len(v)); err != nil {
			return err
		}
		for _, s := range v {
			if err := s.Write(ctx, p); err != nil {
				return err
			}
		}
		return p.WriteListEnd(ctx)
	case [][]byte:
		if err := p.WriteListBegin(ctx, thrift.STRING, len(v)); err != nil {
			return err
		}
		for _, s := range v {
			if err := p.WriteBinary(ctx, s); err != nil {
				return err
			}
		}
		return p.WriteListEnd(ctx)
	}
	panic(fmt.Sprintf("bmv2: no Thrift type for %T", value))
}

// reply is a struct that was received: values by field number. Numbers are int64,
// strings string, lists of numbers []uint64, structs reply; what BMv2 does not send is skipped.
type reply map[int16]any

// Write implements thrift.TStruct; replies are never written.
func (reply) Write(context.Context, thrift.TProtocol) error {
	return fmt.Errorf("replies are not written")
}

// Read implements thrift.TStruct.
func (r reply) Read(ctx context.Context, p thrift.TProtocol) error {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		if kind == thrift.STOP {
			return p.ReadStructEnd(ctx)
		}
		if r[id], err = readValue(ctx, p, kind); err != nil {
			return err
		}
		if err := p.ReadFieldEnd(ctx); err != nil {
			return err
		}
	}
}

func readValue(ctx context.Context, p thrift.TProtocol, kind thrift.TType) (any, error) {
	switch kind {
	case thrift.I32:
		v, err := p.ReadI32(ctx)
		return int64(v), err
	case thrift.I64:
		return p.ReadI64(ctx)
	case thrift.STRING:
		return p.ReadString(ctx)
	case thrift.STRUCT:
		s := reply{}
		return s, s.Read(ctx, p)
	case thrift.LIST:
		element, n, err := p.ReadListBegin(ctx)
		if err != nil {
			return nil, err
		}
		if element != thrift.I64 {
			for range n {
				if err := thrift.SkipDefaultDepth(ctx, p, element); err != nil {
					return nil, err
				}
			}
			return nil, p.ReadListEnd(ctx)
		}
		list := make([]uint64, n)
		for i := range list {
			v, err := p.ReadI64(ctx)
			if err != nil {
				return nil, err
			}
			list[i] = uint64(v)
		}
		return list, p.ReadListEnd(ctx)
	}
	return nil, thrift.SkipDefaultDepth(ctx, p, kind)
}
