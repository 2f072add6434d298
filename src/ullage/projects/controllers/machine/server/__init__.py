"""Asks providers whether the servers of Machines that went are still there."""
