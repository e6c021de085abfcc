"""Demonstrations: bootstrapped, labelled, balanced or nearest."""
