"""`ullage why`: what an object takes, from which accounts, how these stand, and what it waits for."""
