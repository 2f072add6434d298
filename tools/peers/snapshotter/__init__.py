"""The GA snapshotter for tests and benchmarks, built from pinned source."""
