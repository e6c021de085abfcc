"""Tables of the papers: settings of programs on data sets, with our figures beside the papers'.

experiments/tables/*.toml ──► Table ──► a recipe for each row and data set ──► rows, one a question
experiments/tables/data/*.toml ──► files in --data                             figures, words
"""
