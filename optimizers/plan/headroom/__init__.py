"""Headroom: what a study of a recipe can show, measured on a few dev questions before money is spent."""
