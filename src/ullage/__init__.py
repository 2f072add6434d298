"""Ullage: snapshots of volumes, and limits that hold, for shared Kubernetes clusters."""

__version__ = "0.1.0"
