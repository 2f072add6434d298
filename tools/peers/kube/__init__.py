"""A real Kubernetes control plane for the end-to-end tests, built from pinned source."""
