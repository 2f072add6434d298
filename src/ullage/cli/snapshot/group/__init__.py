"""`ullage snapshot group`: snapshots of several claims at one moment."""
