"""Every exception that likeset raises on purpose.

::

    LikesetError
    └── InvalidArgument (also a ValueError)   an argument that cannot be used; names it, shows it, says what to do

A user's mistake always ends in one of these, never in a traceback from deep inside: the command line prints the
message and nothing else. A message shows settings (a size, an epsilon, a shape) and places (row 17, column 3), but
never the content of a data row: messages end up in logs.
"""

__all__ = ["InvalidArgument", "LikesetError"]


class LikesetError(Exception):
    """Base of everything that likeset raises on purpose."""


class InvalidArgument(LikesetError, ValueError):
    """An argument has a value that cannot be used.

    Attributes:
        argument: the argument's name, as the caller wrote it.
        value: the offending value, or a description of it where the value itself is data.
        reason: what is wrong with it and what to do about it.
    """

    def __init__(self, argument: str, value: object, reason: str) -> None:
        super().__init__(argument, value, reason)
        self.argument = argument
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.argument} = {self.value}: {self.reason}"
