package netsim

import (
	"os"
	"path/filepath"
)

// DataDir is where shared data, such as topologies, is: data below the folder
// that the environment variable WEIR_SHARED names, or below ../shared.
func DataDir() string {
	shared := os.Getenv("WEIR_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "shared")
	}
	return filepath.Join(shared, "data")
}
