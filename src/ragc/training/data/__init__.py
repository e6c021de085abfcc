"""Training data: collected question by question, filtered, and written with a card.

`base` defines collectors, its siblings are the kinds; `build` runs one over the train questions, `files`
writes rows and card.
"""
