"""One file or folder a format, and what formats share."""
