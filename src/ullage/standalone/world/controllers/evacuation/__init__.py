"""Nodes that are being drained: their instances are sent elsewhere, as many at a time as is allowed."""
