"""Spans of questions for OpenTelemetry; imported only if the environment asks for them."""
