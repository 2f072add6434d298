//go:build tools

// Package tools pins the programs of a real Kubernetes control plane for the end-to-end tests. Nothing compiles it: its
// imports keep `go mod tidy` from dropping what build.py builds.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
