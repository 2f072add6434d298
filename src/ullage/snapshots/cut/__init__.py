"""Snapshots of several volumes that are cut together or not at all. VM backups and group snapshots are made with it.

rules      a member, and the decisions about all of them: who is missing, who may be told, what has failed, what is undone
members    the members in caches and in the API: found, created, told to be cut, deleted

The caller keeps what differs: who pays and how that is booked, what runs before the cut, and what its own status says.
"""
