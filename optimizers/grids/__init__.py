"""Grids: fixed settings of a program on fixed questions, as a table that studies of search read.

    recipe ──► settings ──► record ──► DIR/NNN.jsonl ──► Grid
               baseline     one file   a line a question  arrays, settings
               first        a setting                     x questions

A grid holds numbers and the ids of questions, and no text of a question, passage, prompt or reply.
"""
