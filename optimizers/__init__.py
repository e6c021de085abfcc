"""Optimizers: from a recipe to a compiled program, through a study that can be killed at any moment."""
