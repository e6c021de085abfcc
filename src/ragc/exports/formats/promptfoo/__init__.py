"""promptfoo: a configuration, and a metric of ours beside it."""
