"""`ullage projects`: which there are and how they stand, and what becomes of a seed that is gone for good."""
