"""What objects are stamped to take follows what is there: sizes that a purge changes, who pays, and from whose accounts.

Pure: `model` facts, `volumes` what engines say, `payers` who pays for what, `order` in which order it is written.
"""
