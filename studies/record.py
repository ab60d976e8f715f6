"""The record of a study: one JSON line per finished cell, so that a run that was killed goes on where it was."""

import os
from pathlib import Path

from likeset.errors import BadDocument, InvalidArgument
from studies.contract import RecordLine


class Record:
    """The lines in ``cells.jsonl`` of a folder; the last line of a cell counts."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "cells.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.path.touch()
        except OSError as error:
            raise InvalidArgument("--out", folder, f"cannot be written: {error.strerror}") from error
        self._drop_torn_line()
        self.lines = self._read()

    def add(self, line: RecordLine) -> None:
        """Append a line; it is on disk when this returns."""
        data = (line.to_json() + "\n").encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            # One write: what another process appends, or a kill, does not fall between its parts.
            written = os.write(descriptor, data)
            if written < len(data):
                raise InvalidArgument("--out", self.path, "could not take a whole line: is the disk full?")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.lines[line.key] = line

    def _drop_torn_line(self) -> None:
        """A kill may leave half a line at the end: the file ends without a line's end, and that line is dropped."""
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            with self.path.open("r+b") as file:
                file.truncate(data.rfind(b"\n") + 1)

    def _read(self) -> dict[str, RecordLine]:
        lines: dict[str, RecordLine] = {}
        try:
            texts = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        except UnicodeDecodeError as error:
            raise BadDocument(str(self.path), "is not text; move it away to start anew") from error
        for number, text in enumerate(texts, start=1):
            try:
                line = RecordLine.from_json(text)
            except ValueError as error:
                reason = "is no line of a study's record; remove it, and its cell is computed anew"
                raise BadDocument(str(self.path), reason, line=number) from error
            lines[line.key] = line
        return lines
