"""One folder for each kind whose objects are reconciled. They do not import each other."""
