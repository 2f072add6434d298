"""Takes the snapshots of schedules, each at its time, few at once, and one for each claim and time whatever happens."""
