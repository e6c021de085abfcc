"""Compiled programs: their files, trust in them, answering with them, and their measured scores."""
