"""Decisions about the Machines of user clusters, all pure: what a Machine takes, and how its stamp shows that nobody has
changed it (`signatures`)."""
