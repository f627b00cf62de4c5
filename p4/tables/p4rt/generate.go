// Package p4rt has the messages of P4Runtime that write tables, made of p4rt.proto.
package p4rt

// `go generate` needs protoc (Debian: protobuf-compiler); its plugin is a tool of go.mod.

//go:generate go build -o .bin/ google.golang.org/protobuf/cmd/protoc-gen-go
//go:generate protoc --plugin=.bin/protoc-gen-go --go_out=paths=source_relative:. p4rt.proto
//go:generate rm -r .bin
