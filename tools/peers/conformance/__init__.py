"""Kubernetes' own conformance tests, built from pinned source."""
