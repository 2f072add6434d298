//go:build tools

// Package tools pins the programs of KubeVirt that `make test-peers` runs beside Ullage. Nothing compiles it: its imports
// keep `go mod tidy` from dropping what build.py builds.
package tools

import (
	_ "kubevirt.io/kubevirt/cmd/virt-api"
	_ "kubevirt.io/kubevirt/cmd/virt-controller"
)
