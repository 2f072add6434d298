"""One folder for each kind: runs of hooks, and the snapshots that wait for them."""
