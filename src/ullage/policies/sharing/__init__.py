"""SnapshotShares: an administrator gives a snapshot of one namespace to others.

api          the kind
model        what a share makes: a record that stands for the same data, and a snapshot in the other namespace. Pure
controllers  share_grant: makes these, and takes them back
"""
