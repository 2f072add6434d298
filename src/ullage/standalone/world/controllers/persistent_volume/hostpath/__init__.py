"""Volumes that are directories of this machine."""
