"""Thresholds fitted to recorded scores."""
