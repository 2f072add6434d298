//go:build tools

// Package tools pins longhorn-engine, the peer that the embedded engine is compared with. Nothing compiles it: its import
// keeps `go mod tidy` from dropping what build.py builds.
package tools

import (
	_ "github.com/longhorn/longhorn-engine"
)
