package main

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/view/parquet"
)

// writeParquet writes an answer to a file.
func writeParquet(file string, answer any) error {
	if err := parquet.WriteFile(file, answer); err != nil {
		return fmt.Errorf("--parquet: %w", err)
	}
	return nil
}
