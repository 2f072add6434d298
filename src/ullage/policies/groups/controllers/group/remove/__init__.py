"""Deletes groups: what the storage system has, then the members, then the group."""
