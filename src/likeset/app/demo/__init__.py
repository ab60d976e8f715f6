"""The demo: a market of handwritten digits on this machine, in one process or among seven."""
