"""The call store: what was asked and answered once."""
