"""jinja2: the file alone, in a plain environment of jinja2, gives the messages that are sent."""

from __future__ import annotations
