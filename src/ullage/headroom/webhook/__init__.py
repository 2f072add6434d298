"""What is admitted of machines, and what of it is booked."""
