"""Commands on documents of your own, and on the questions about them."""
