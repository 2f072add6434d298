"""SnapshotRestore: a claim gets the data of a snapshot of it back, under its own name; what it had before is kept a while.

api            the kind; model: its phases, names and durations; eligibility: what may be restored. Pure
methods        how it is done: directories that change places, volumes that revert, claims that are made again
controllers    carries a restore out, step by step; pods: who uses a claim; in_use: snapshots that restores read
slice          puts all together
"""
