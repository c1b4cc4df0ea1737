"""Frames, the table of APIs and versions we serve, and request and response bodies."""
