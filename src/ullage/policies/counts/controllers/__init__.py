"""By kind: limits, and the snapshots that they are on."""
