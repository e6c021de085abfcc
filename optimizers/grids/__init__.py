"""Grids: fixed settings of a program on fixed questions, as a table that studies of search read.

    recipe ──► settings ──► record ──► DIR/shards/NNN.parquet ──► DIR/cells.parquet ──► Grid
               baseline     one shard  scores, tokens, seconds    one file              arrays, settings
               first        a setting  of each question                                 x questions

A grid holds numbers and the ids of questions, and no text of a question, passage, prompt or reply.
"""
