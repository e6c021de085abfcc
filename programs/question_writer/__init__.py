"""Questions written from the passages of a corpus by the role `teacher`, and the checks that they pass.

    corpus ─► choose: sentences to ask about ─► writer: typed calls ─► checks ─► file: questions, set aside

`base` says what a written question is, `choose` which sentences are asked about, `writer` makes the calls,
`checks` has the rules without a model, `file` keeps what people edited, and `log` reads the questions that
people asked.
"""
