"""Snapshots to ready and to gone: our controller beside the GA snapshot-controller and csi-snapshotter."""
