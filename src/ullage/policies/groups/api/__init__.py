"""The kinds of `groupsnapshot.storage.k8s.io`, in the versions v1beta2 (stored) and v1, which have the same fields."""
