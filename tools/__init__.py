"""Programs for whoever works on Ullage. Nothing of this is installed."""
