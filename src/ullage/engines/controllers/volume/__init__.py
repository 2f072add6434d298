"""Deletes a Volume's Snapshots with it, and removes attachment tickets that nobody needs any more."""
