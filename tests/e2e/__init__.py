"""One suite for every control plane: the embedded API server by default, any cluster with `E2E_KUBECONFIG=path`."""
