"""Training data: collected question by question, filtered, and written with a card.

`base` has collectors and the files that are written, its siblings are the kinds; `build` runs one over the
train questions, and writes demonstrations.
"""
