"""Between NVFlare's process and a home's own: a Unix socket, over which nothing goes but signed terms and letters."""
