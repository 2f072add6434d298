"""Writes on PersistentVolumes what is in them, for webhooks, which ask no storage system."""
