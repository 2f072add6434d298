"""The two VolumeSnapshot APIs: their kinds, and the translation of each into the terms of `model.py` and back."""
