"""Spans of questions for OpenTelemetry; imported only where the environment asks for them."""
