"""A partition as this broker holds it: leadership, the high watermark and who waits for it."""
