"""Tables of the papers: settings of programs on data sets, with the papers' figures beside ours.

experiments/tables/*.toml ──► Table ──► a recipe for each row and data set ──► rows, one a question
experiments/tables/data/*.toml ──► files in --data                             figures, words, a plot
"""
