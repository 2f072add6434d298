"""The admission hook on claims: the annotation that asks for a restore becomes `dataSourceRef`."""
