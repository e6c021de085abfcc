"""The variables of a search (settings, demonstrations, instructions, thresholds), and records of trials."""
