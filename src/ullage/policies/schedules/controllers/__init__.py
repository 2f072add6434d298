"""run takes snapshots; retain deletes those that are not to be kept. They share a kind, and write different fields of it."""
