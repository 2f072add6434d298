"""Pods, and the kinds that make pods."""
