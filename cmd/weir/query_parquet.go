package main

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/view/parquet"
)

// writeParquet writes an answer to a file.
func writeParquet(file string, answer any) error {
	return parquetFault(parquet.WriteFile(file, answer))
}

// parquetFault names the flag to which a file's fault belongs.
func parquetFault(err error) error {
	if err != nil {
		return fmt.Errorf("--parquet: %w", err)
	}
	return nil
}
