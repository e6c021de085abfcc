"""Compiled programs: writing, trusting, opening and scoring them."""
