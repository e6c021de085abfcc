"""`web`: search engines of the web, their snippets or whole pages."""
