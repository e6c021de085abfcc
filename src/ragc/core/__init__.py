"""What every package may use: event loop, counters, digests, paths, limits, texts."""
