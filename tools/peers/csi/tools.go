//go:build tools

// Package tools pins csi-sanity, which judges the driver in tests/csi_driver. Nothing compiles it: its import keeps
// `go mod tidy` from dropping what build.py builds.
package tools

import (
	_ "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity"
)
