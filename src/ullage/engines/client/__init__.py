"""Calls to volume engines over gRPC: what the controllers need of one (`interface`), and how it is reached."""
