"""Machines of a user cluster."""
