"""A volume's directory changes places with a copy of a snapshot, and back: restores in place.

`exchange` swaps two directories at once; `journal` says which is which; `swaps` prepares the copy, swaps, undoes and removes,
each from wherever an earlier process was killed; `backend` does it in threads, for controllers.
"""
