"""Webhooks that others register: calls (the HTTPS call, and how its failures are worded), dispatch (mutating ones one after the
other, validating ones side by side), outcome (what mutating ones left behind, read again as if it had been sent).
"""
