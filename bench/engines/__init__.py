"""What 30,000 snapshots inside engines cost: a cold start, polls that find nothing new, one more snapshot, an upgrade."""
