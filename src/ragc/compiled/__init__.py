"""Compiled programs: their files, who trusts them, what answers with them, and what was measured."""
