"""Demonstrations: bootstrapped, labelled, balanced, nearest."""
