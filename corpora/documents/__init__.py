"""Documents read from files: PDF, Office, HTML, Markdown, tables and text, as Markdown by page."""
