"""One folder for each kind, and in it one for each thing that is done about it."""
