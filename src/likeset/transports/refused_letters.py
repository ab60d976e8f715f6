"""Which errors of a curator at a letter mean that the letter is as if it had not come; any other ends the run."""

from likeset.errors import BadMessage, IllegalMessage, LetterContradicts, LetterRefused

AS_IF_NOT_COME = (BadMessage, IllegalMessage, LetterRefused, LetterContradicts)
