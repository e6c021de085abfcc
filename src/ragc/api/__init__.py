"""The public functions, a file for each kind of work; `ragc` lists their names, and commands call them.

Each function imports what it needs when it is called, so that `import ragc` is fast.
"""
