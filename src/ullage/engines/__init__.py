"""Every snapshot inside a volume engine is an object: Longhorn's Snapshot, at 1,000 volumes and 30,000 of them."""
