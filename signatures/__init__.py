"""Signatures: what is asked of a language model, one stage a file.

A signature's docstring and field descriptions are the prompt. Notes to developers stand in the
module's docstring.
"""
