"""Reports for people: which questions failed and why, on the terminal and in HTML."""
