"""Admission of Snapshots: what is set on a new one, and what is refused."""
