"""Hosted models, by LiteLLM."""
