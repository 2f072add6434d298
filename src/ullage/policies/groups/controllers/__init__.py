"""group_take, group_adopt, group_remove: group snapshots. content_sync: calls the drivers that cut all volumes at once."""
