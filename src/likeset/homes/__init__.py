"""Each organisation's own side, in one directory: the owner's, the curator's."""
