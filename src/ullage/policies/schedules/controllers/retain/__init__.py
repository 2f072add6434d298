"""Deletes what schedules have made and are not to keep: never the newest good one of a claim, nor one in use or protected."""
