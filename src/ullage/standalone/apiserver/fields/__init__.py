"""The fields of an object.

shape                  which lists are keyed and which maps are one piece
fieldset, ownership    sets of field paths; what an object declares, and what a change changed
managers               managedFields on every write
apply/, patch/         server-side apply; JSON patch, merge patch, strategic merge patch
"""
