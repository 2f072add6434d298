"""Marks quotas with their subject, and has them go with their project."""
