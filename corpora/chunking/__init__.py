"""Passages cut into chunks: by tokens, or along Markdown's sections."""
