"""The controllers, one folder each: `<kind>/<verb>`, with `controller.py` and its pure `rules.py`."""
