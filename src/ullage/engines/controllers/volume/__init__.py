"""Deletes a Volume's snapshots with it, and removes attachment tickets that nobody needs."""
