"""Tells the users of a cluster that their Machines are not asked about, and when they are again."""
