"""KubeVirt for tests and for the records of its pods, built from pinned source."""
