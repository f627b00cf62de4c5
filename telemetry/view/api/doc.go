// Package api is the collector's API for programs: questions and answers of package query
// over HTTP, by the Connect protocol, with Protocol Buffers or JSON.
//
//	question (JSON, protobuf) ──> handler ── query.Question ──> Config.Ask ── answer ──> message ──> client
//	                                 │ limits: bytes, questions at a time, watches, seconds
//
// query.proto is the schema, field by field with units and ranges; it is served at
// [SchemaPath]. Its messages have the fields of query's types, by their names in JSON, so
// conversion loses nothing and a test holds both equal. Nothing is computed here.
//
// [NewHandler] is the server's side, [NewClient] a program's, on which `weir query`
// rests too; package example shows its use. Both may be used by many goroutines.
package api
