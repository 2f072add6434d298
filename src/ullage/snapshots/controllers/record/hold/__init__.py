"""Keeps what VolumeSnapshots need of Longhorn's volumes: puts holds on Snapshots and Volumes, and takes them off again.

A snapshot of an engine is inside its volume, and goes with it. As long as a record names one, the Snapshot and its Volume
carry a hold (`engines/holds.py`): the claim may go, the PersistentVolume stays Released, the Volume stays.
"""
