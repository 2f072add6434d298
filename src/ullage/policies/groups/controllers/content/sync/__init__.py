"""Calls the drivers that cut several volumes at once."""
