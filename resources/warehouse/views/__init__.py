"""The views and macros that analysts ask, each with its SQL."""
