"""The two VolumeSnapshot APIs, each turned into the terms of `model.py` and back."""
