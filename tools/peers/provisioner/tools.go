//go:build tools

// Package tools pins the provisioner of CSI drivers, which runs beside Ullage in tests. Nothing compiles it: its import keeps
// `go mod tidy` from dropping what build.py builds.
package tools

import _ "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner"
