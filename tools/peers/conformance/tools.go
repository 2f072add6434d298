//go:build tools

// Package tools pins Kubernetes' own end-to-end tests, of which the conformance tests are a part. Nothing compiles it: its
// import keeps `go mod tidy` from dropping what build.py builds.
package tools

import _ "k8s.io/kubernetes/test/e2e"
