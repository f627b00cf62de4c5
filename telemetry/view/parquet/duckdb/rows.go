//go:build duckdb

package duckdb

import (
	"database/sql"
	"errors"

	_ "github.com/marcboeker/go-duckdb"
)

// Rows asks DuckDB, and returns the values of each row.
func Rows(question string) (all [][]any, err error) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	got, err := db.Query(question)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, got.Close()) }()
	names, err := got.Columns()
	if err != nil {
		return nil, err
	}
	for got.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := got.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, values)
	}
	return all, got.Err()
}
