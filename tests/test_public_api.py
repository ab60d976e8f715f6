"""What users may rely on; a change here is a change of the public interface and belongs in the changelog."""

import doctest
import inspect
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import pytest

import likeset
from job_world import World
from likeset import errors, geometry, privacy
from likeset.errors import InvalidArgument, LikesetError
from likeset.protocol import notices


def test_every_exception_has_one_root() -> None:
    """A caller who catches LikesetError catches everything that likeset raises on purpose."""
    assert all(issubclass(item, LikesetError) for item in vars(errors).values() if inspect.isclass(item))
    assert issubclass(InvalidArgument, ValueError)


@pytest.mark.parametrize("package", [geometry, privacy])
def test_plans_events_and_results_cannot_be_changed(package: ModuleType) -> None:
    """A plan is priced before it is run: what was priced must be what is run."""
    modules = [import_module(f"{package.__name__}.{found.name}") for found in iter_modules(package.__path__)]
    records = {
        item for module in modules for item in vars(module).values() if inspect.isclass(item) and is_dataclass(item)
    }
    changing = {record.__name__ for record in records if not vars(record)["__dataclass_params__"].frozen}
    assert changing <= {"Candidates"}


@pytest.mark.parametrize("name", ["Schema", "Summarizer", "evaluate", "match"])
def test_the_examples_of_public_things_run(name: str) -> None:
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(getattr(likeset, name), name):
        runner.run(example)
    results = runner.summarize(verbose=False)
    assert results.attempted > 0
    assert results.failed == 0


def test_match_writes_what_the_command_writes(tmp_path: Path) -> None:
    world = World.make(tmp_path)
    with pytest.warns(likeset.LikesetWarning, match="simulated"):
        matched = likeset.match(
            world.folder / "target.csv",
            {name: world.place(name) for name in ("north", "south")},
            schema=world.folder / "schema.yaml",
            size=9,
            out=world.out,
            noise="simulated",
            seed=1,
        )
    assert matched.out == world.out
    assert matched.summary.num_rows == matched.result["rows_selected"] == 9
    assert matched.summary.column_names == ["age", "pulse", "site", "smoker", "ill", "owner", "weight"]
    assert matched.report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert notices.SIMULATED_NOISE in matched.warnings


def test_match_sends_a_frame_to_the_summarizer(tmp_path: Path) -> None:
    world = World.make(tmp_path)
    target, schema = world.folder / "target.csv", world.folder / "schema.yaml"
    with pytest.raises(InvalidArgument, match=r"likeset\.Summarizer") as caught:
        likeset.match(target, {"north": [[1.0]]}, schema=schema, size=9, out=world.out)  # type: ignore[dict-item]
    assert caught.value.argument == "owners['north']"
    assert not world.out.exists()
