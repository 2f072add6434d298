"""Volumes that stand on Longhorn's: what its CSI provisioner does."""
