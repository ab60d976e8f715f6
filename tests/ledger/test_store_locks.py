"""A process that opens a file twice keeps its locks on it."""

import subprocess
import sys
from pathlib import Path

from likeset.ledger.sqlite_file import Layout, SqliteFile

LAYOUT = Layout("shelf", 0x4C_53_00_01, 1, ("CREATE TABLE words (word TEXT)",))
OTHER = """
import sys
from pathlib import Path
from likeset.ledger.sqlite_file import Layout, SqliteFile
with SqliteFile(Path(sys.argv[1]), layout=Layout("shelf", 0x4C_53_00_01, 1, ())) as store:
    with store.writing() as connection:
        connection.execute("INSERT INTO words VALUES ('theirs')")
"""


def test_another_process_that_closes_last_does_not_take_the_log_away_under_one_that_opened_the_file_twice(
    tmp_path: Path,
) -> None:
    """Whoever closes a file drops all locks of its process on it, unless SQLite does; the last one removes the log."""
    path = tmp_path / "shelf.sqlite"
    with SqliteFile(path, layout=LAYOUT) as first:
        with first.writing() as connection:
            connection.execute("INSERT INTO words VALUES ('mine')")
        SqliteFile(path, layout=LAYOUT).close()
        subprocess.run([sys.executable, "-c", OTHER, str(path)], check=True, timeout=300)  # noqa: S603 (our own)
        assert path.with_name("shelf.sqlite-wal").exists()
        with first.writing() as connection:
            connection.execute("INSERT INTO words VALUES ('mine again')")
    with SqliteFile(path, layout=LAYOUT) as last, last.reading() as connection:
        assert [word for (word,) in connection.execute("SELECT word FROM words")] == ["mine", "theirs", "mine again"]
