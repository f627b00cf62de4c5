package netsim

import (
	"os"
	"path/filepath"
)

// DataDir is where shared data, such as topologies, is: data below the folder
// that the environment variable WEIR_SHARED names, or below a folder named
// shared beside the working directory or one of those that it lies in.
func DataDir() string {
	if shared := os.Getenv("WEIR_SHARED"); shared != "" {
		return filepath.Join(shared, "data")
	}
	dir := filepath.Join("..", "shared", "data")
	for up, deep := dir, 0; deep < 6; up, deep = filepath.Join("..", up), deep+1 {
		if _, err := os.Stat(up); err == nil {
			return up
		}
	}
	return dir
}
