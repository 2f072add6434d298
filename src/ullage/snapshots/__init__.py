"""Snapshots of any PersistentVolume: create, list, delete, restore."""
