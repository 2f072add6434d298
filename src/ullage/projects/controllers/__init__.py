"""The controllers, by what they look after: `quota`, and `cluster`."""
