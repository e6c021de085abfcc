"""BAML: functions and classes."""
