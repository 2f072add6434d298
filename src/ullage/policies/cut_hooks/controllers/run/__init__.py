"""Runs of hooks."""
