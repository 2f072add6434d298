"""Polls each running engine every few seconds: writes the Engine's status, makes a Snapshot object for each snapshot that has
none, and deletes an object when two polls in a row had no snapshot for it. When nothing is new nothing is written."""
