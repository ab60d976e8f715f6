"""The page of a study: what was done, tables and figures, with the command, the dates and the noise."""

from collections.abc import Sequence
from pathlib import Path

from studies.contract import SIMULATED_SENTENCE, Presentation, RecordLine


def write_page(presentation: Presentation, lines: Sequence[RecordLine], *, out: Path, command: str) -> Path:
    """Write ``README.md`` beside the record that its numbers come from."""
    done = [line for line in lines if line.done]
    days = sorted({line.date[:10] for line in done})
    when = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "never"
    versions = ", ".join(sorted({line.version for line in done}))
    parts = [
        f"# {presentation.title}",
        f"**{SIMULATED_SENTENCE}** Noise is drawn from the seed of each run, so that it can be "
        "repeated. Guarantees are those of the same run with secret noise.",
        f"`{command}`, {when}, likeset {versions}. {len(done)} runs, {sum(line.seconds for line in done) / 60:.0f} "
        "minutes on the clock if one after another, with what else the machine had to do; every number is computed "
        "from [cells.jsonl](cells.jsonl).",
        *presentation.words,
        *_failures(lines),
        *(f"![{caption}]({path.relative_to(out).as_posix()})" for path, caption in presentation.figures.items()),
        *(table.markdown().rstrip("\n") for table in presentation.tables),
    ]
    page = out / "README.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _failures(lines: Sequence[RecordLine]) -> list[str]:
    failed = [line for line in lines if not line.done]
    if not failed:
        return []
    reasons = "; ".join(sorted({line.failure for line in failed}))
    return [f"**{len(failed)} runs failed** and are left out: {reasons}."]
