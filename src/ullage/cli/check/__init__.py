"""`ullage check`: would this be admitted? Asked of the server, which changes nothing."""
