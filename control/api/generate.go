// Package api is the messages and the calls of a switch's API, made from
// weir.proto.
//
// `go generate` needs protoc (Debian: protobuf-compiler); its two plugins are
// tools of go.mod. The handlers that answer each call with "not implemented" are cut
// out: the compiler shall say which call has no answer.
package api

//go:generate go build -o .bin/ google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
//go:generate protoc --plugin=.bin/protoc-gen-go --plugin=.bin/protoc-gen-connect-go --go_out=paths=source_relative:. --connect-go_out=paths=source_relative,package_suffix,simple:. -I. -I../../telemetry/view/api weir.proto
//go:generate sed -i -E "/^(\\/\\/ Unimplemented|type Unimplemented|\terrors )/d;/^func \\(Unimplemented/,/^}/d" weir.connect.go
//go:generate go fmt weir.connect.go
//go:generate rm -r .bin
