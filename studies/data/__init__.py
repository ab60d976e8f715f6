"""Data sets to study on, and the markets cut from them. Scales come from public knowledge, never from the rows."""
