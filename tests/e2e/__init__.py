"""One suite for every control plane: the embedded API server by default, a real one with `E2E_CONTROL_PLANE=kube`."""
