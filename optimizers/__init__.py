"""Optimizers: from a recipe to a compiled program, through a study that survives a kill at any moment."""
