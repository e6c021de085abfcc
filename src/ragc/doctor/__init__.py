"""The checks of `ragc doctor`: the machine, stored files, and the targets of a recipe."""
