"""What is served, and what differs between kinds: the registry, the built-in kinds, versions, metadata, strategies."""
