"""external-provisioner for tests, built from pinned source."""
