package main

import (
	"errors"
)

func writeParquet(file string, answer any) error { return errors.New("not yet") }
