"""How many snapshots there may be: in a namespace, and of each of its claims (`SnapshotLimit`).

Counted in the namespace's ledger, beside their space, and admitted by the hook that books that: one write says yes to both.
Where a limit says `deleteOldest`, who does not fit is told to try again, and the controller deletes the oldest for it.
"""
