"""Admission of Snapshots: `hooks` sets label, finalizer and owner on a new one; `rules` says what is refused, and why."""
