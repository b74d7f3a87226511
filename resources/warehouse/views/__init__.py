"""Views and macros for analysts, with their SQL."""
