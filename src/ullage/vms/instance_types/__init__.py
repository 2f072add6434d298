"""What the instance type and the preference of a VM make of its template: `expansion` decides, `reader` asks the API."""
