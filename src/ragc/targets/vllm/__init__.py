"""Servers that speak OpenAI's API, running or started here, and vLLM's engine in the process."""
