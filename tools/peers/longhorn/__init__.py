"""longhorn-engine for the differential test, built from pinned source."""
