"""Pods of instances that were there before anybody marked such: `rules` tell which they are, `controller` marks them."""
