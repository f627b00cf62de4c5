package control

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/internal/safefile"
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
	return &Audit{core: zapcore.NewCore(encoder, zapcore.Lock(&wholeLines{f, endsWithin(path)}), zapcore.InfoLevel), file: f}, nil
}

// wholeLines writes lines to the end of a file. Of one that cannot be written whole nothing stays, or at least the next one
// begins anew.
type wholeLines struct {
	*os.File
	within bool // the file ends within a line
}

// Write implements io.Writer.
func (w *wholeLines) Write(line []byte) (int, error) {
	if w.within {
		line = append([]byte("\n"), line...)
	}
	n, err := w.File.Write(line)
	if err == nil {
		w.within = false
		return n, nil
	}
	if n > 0 {
		info, statErr := w.Stat()
		if statErr != nil || w.Truncate(info.Size()-int64(n)) != nil {
			w.within = true
		}
	}
	return 0, err
}

// endsWithin reports whether a file ends within a line, as where the machine failed while it was written.
func endsWithin(path string) bool {
	f, err := safefile.Open(path)
	if err != nil {
		return false // no regular file: it has no end
	}
	defer f.Close()
	last := []byte{'\n'}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		_, _ = f.ReadAt(last, info.Size()-1)
	}
	return last[0] != '\n'
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
	level := zapcore.InfoLevel
	if who.itself() && slices.ContainsFunc(fields, func(f zap.Field) bool { return f.Key == "result" && f.String != "done" }) {
		level = zapcore.WarnLevel // this line alone says so
	}
	log.Log(level, "control: "+call, fields...)
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
	if id.itself() {
		return nil
	}
	return []zap.Field{zap.Int("uid", id.uid), zap.Int("pid", id.pid)}
}
