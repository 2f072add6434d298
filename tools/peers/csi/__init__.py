"""csi-sanity for the end-to-end tests, built from pinned source."""
