"""ragc inside DSPy and Optuna scripts."""
