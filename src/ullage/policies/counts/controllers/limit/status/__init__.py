"""Shows how many snapshots there are, and whether that is within the limits."""
