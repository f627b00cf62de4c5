// Package plainjson writes protobuf messages as the reports of the command line are written:
// the schema's field names in the schema's order, numbers as numbers, empty lists and maps.
// (protojson writes 64-bit integers as strings, which no tool sums up, and leaves zeros out.)
package plainjson
