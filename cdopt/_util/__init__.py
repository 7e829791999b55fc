"""Tools without mechanics: checks of arguments, read-only arrays, files, compiled loops."""
