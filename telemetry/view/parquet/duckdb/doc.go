// Package duckdb asks DuckDB in tests, and has the one that reads Weir's Parquet files with DuckDB, a reader that has nothing in common with their writer.
//
// DuckDB is C++, and Weir needs no cgo: the test has the build tag duckdb, and its requirements are in duckdb.mod. Run it with
// "make test-duckdb".
package duckdb
