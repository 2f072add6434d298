"""Books what snapshots take whose driver a sidecar calls: that one measures, and has no identity that may book."""
