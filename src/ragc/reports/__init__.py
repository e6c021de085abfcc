"""Reports for people: what went wrong where, on the terminal and in HTML."""
