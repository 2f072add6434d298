"""`ullage volume` and `ullage tree`."""
