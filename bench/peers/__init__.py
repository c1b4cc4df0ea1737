"""Those that the paper's experiments compare with, and ourselves: each started, loaded, measured and stopped alike."""
