"""About the Machines of user clusters."""
