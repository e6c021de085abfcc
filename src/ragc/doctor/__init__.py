"""What `ragc doctor` checks: the machine, what is kept, and the targets of a recipe."""
