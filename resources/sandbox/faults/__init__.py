"""What goes wrong on purpose: which faults are set, and damage to archives. `api.misbehaviour` does it to answers."""
