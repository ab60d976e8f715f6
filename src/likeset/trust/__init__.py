"""Who speaks is proven: cards, pins, signed terms and letters. Nothing here knows what a message means."""
