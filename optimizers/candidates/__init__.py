"""What a search may vary (settings, demonstrations, instructions, thresholds), and records of trials."""
