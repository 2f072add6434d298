"""Longhorn's Volumes and their Engines: what longhorn-manager does."""
