//go:build tools

// Package tools pins the snapshotter that most clusters run, which ours is compared with. Nothing compiles it: its imports
// keep `go mod tidy` from dropping what build.py builds.
package tools

import (
	_ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter"
	_ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller"
)
