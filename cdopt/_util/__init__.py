"""Tools that know no mechanics: checks of arguments, read-only arrays, files, compiled loops."""
