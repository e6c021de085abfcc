"""promptfoo: a configuration, and ragc's metric beside it."""
