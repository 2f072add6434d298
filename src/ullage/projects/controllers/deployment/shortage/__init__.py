"""Tells who has fewer machines than he wants, and for how long."""
