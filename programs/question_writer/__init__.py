"""Questions written from the passages of a corpus by the role `teacher`, and the checks that they pass.

    corpus ─► writer: sentences to ask about, typed calls ─► checks ─► file: questions, set aside

`writer` chooses sentences and makes the calls, `checks` says what a written question is and has the rules
without a model, `file` keeps what people edited and reads the questions that people asked.
"""
