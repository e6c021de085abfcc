"""Calibration of thresholds from recorded scores."""
