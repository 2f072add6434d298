"""Attacks on the embedded API server, as data: bodies, patches, queries, connections; and probes that tell what they did."""
