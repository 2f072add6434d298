"""The Configuration: what an administrator sets for all processes of an installation, in one file.

`types` has the fields with their docs and defaults, `reading` decodes a file strictly, `flags` joins each field to the flags
that set the same, and `printing` writes the Configuration with comments, and its JSON schema.
"""
