"""Reading back, without changing anything."""
