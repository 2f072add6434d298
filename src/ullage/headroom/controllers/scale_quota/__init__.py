"""Raises a namespace's core ResourceQuota by what its migrating instances take, and lowers it after: a mode that is off by
default."""
