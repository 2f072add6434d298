"""machine-controller for tests, built from pinned source."""
