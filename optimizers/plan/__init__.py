"""The dry run: upper bounds on the cost of a compile."""
