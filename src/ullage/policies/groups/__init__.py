"""Snapshots of several volumes at one moment: VolumeGroupSnapshot.

api, model      the kinds of groupsnapshot.storage.k8s.io, and the terms of decisions
controllers     group_take, group_adopt, group_remove: groups; content_sync: the calls to drivers that cut all at once
webhook         who may name hooks on a group
lookup, slice   typed reads of the caches; the front page
"""
