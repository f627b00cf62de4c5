package control

import (
	"fmt"
	"os"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// Audit is the record of who changed what. Each call of service Admin makes one
// line of JSON with time, uid and pid or certificate, call, what was asked for,
// changed, and result; a capture that is accepted makes two. A line that cannot be written is counted, and the change
// remains: a full disk takes no control from an operator. It may be used by many
// goroutines.
type Audit struct {
	core zapcore.Core
	file *os.File
	lost atomic.Uint64
}

// auditFlags refuse a FIFO without a reader.
const auditFlags = os.O_APPEND | os.O_WRONLY | unix.O_NONBLOCK

func auditFault(err error) error {
	return fmt.Errorf("control.audit: %w: name a file in a folder that exists and may be written", err)
}

// OpenAudit opens the file, to append to it, or makes it, for its owner to write
// and its group to read. An empty path gives an audit that writes nothing.
func OpenAudit(path string) (*Audit, error) {
	if path == "" {
		return &Audit{core: zapcore.NewNopCore()}, nil
	}
	f, err := os.OpenFile(path, auditFlags|os.O_CREATE, 0o640)
	if err != nil {
		return nil, auditFault(err)
	}
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey: "time", EncodeTime: zapcore.RFC3339NanoTimeEncoder, MessageKey: "call", LineEnding: "\n",
	})
	return &Audit{core: zapcore.NewCore(encoder, zapcore.Lock(f), zapcore.InfoLevel), file: f}, nil
}

// Lost counts the lines that could not be written.
func (a *Audit) Lost() uint64 { return a.lost.Load() }

// Close closes the file.
func (a *Audit) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// write appends a line. The switch's own log gets it too.
func (a *Audit) write(log *zap.Logger, who identity, call string, fields ...zap.Field) {
	fields = append(who.fields(), fields...)
	log.Info("control: "+call, fields...)
	if err := a.core.Write(zapcore.Entry{Level: zapcore.InfoLevel, Time: now(), Message: call}, fields); err != nil {
		if a.lost.Add(1) == 1 {
			log.Error("the audit log cannot be written; further such lines are only counted", zap.Error(err))
		}
	}
}

func (id identity) fields() []zap.Field {
	if id.certificate != "" {
		return []zap.Field{zap.String("certificate", id.certificate)}
	}
	return []zap.Field{zap.Int("uid", id.uid), zap.Int("pid", id.pid)}
}
