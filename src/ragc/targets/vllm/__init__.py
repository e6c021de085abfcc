"""Servers with OpenAI's API, running or started by ragc, and vLLM's engine in this process."""
