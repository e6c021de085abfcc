"""The command line and what people see of it."""
