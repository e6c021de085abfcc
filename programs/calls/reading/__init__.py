"""Reading of replies: parsers of text that is not the JSON object asked for, and the mending of values."""
