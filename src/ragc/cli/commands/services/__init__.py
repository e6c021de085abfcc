"""Commands that offer compiled programs to other programs."""
