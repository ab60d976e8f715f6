"""What users may rely on; a change here is a change of the public interface and belongs into the changelog."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import likeset
from job_world import World
from likeset import errors
from likeset.errors import InvalidArgument, LikesetError
from likeset.protocol import notices

PUBLIC = [
    "Interactive",
    "LikesetWarning",
    "Schema",
    "Summarizer",
    "Terms",
    "errors",
    "evaluate",
    "exact_greedy",
    "match",
    "squared_mmd",
]

SIGNATURES = {
    "likeset.evaluate": (
        "(rows, labels, *, test_rows, test_labels, test_ids, weights, owners, compare, schema, resamples, "
        "random_state, progress)"
    ),
    "likeset.match": "(target, owners, *, schema, size, out, resume, compare, progress, settings)",
    "likeset.squared_mmd": "(a, b, *, gamma, weights)",
    "likeset.geometry.features.FourierFeatures": "(columns, dimension, gamma, seed, kind)",
    "likeset.geometry.greedy.exact_greedy": ("(pool, target, size, *, gamma, method, progress, target_weights)"),
    "likeset.geometry.offers.uniform": "(owner_sizes, size, *, coins)",
    "likeset.geometry.kernels.median_gamma": "(rows, *, scale, coins, sample)",
    "likeset.geometry.greedy.swap": "(pool, target, selected, *, gamma, passes, target_weights)",
    "likeset.geometry.offers.fit": "(features, released, *, noise_energy, wanted, population, log_weights)",
    "likeset.geometry.weights.weights": "(selected, target, *, gamma, target_weights)",
}


def test_the_public_names_are_these() -> None:
    assert sorted(likeset.__all__) == PUBLIC
    assert all(hasattr(likeset, name) for name in likeset.__all__)


def test_importing_star_brings_the_public_names_only() -> None:
    names: dict[str, object] = {}
    exec("from likeset import *", names)  # noqa: S102 - a star import is only possible at the top of a module
    assert sorted(set(names) - {"__builtins__"}) == PUBLIC


def test_the_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", likeset.__version__)


def test_arguments_have_the_names_and_the_order_that_callers_write() -> None:
    for path, expected in SIGNATURES.items():
        module, name = path.rsplit(".", 1)
        parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters.values()
        words = [parameter.name for parameter in parameters]
        keyword_only = [place for place, one in enumerate(parameters) if one.kind is inspect.Parameter.KEYWORD_ONLY]
        if keyword_only:
            words.insert(keyword_only[0], "*")
        assert f"({', '.join(words)})" == expected, path


ERRORS = {name: item for name, item in vars(errors).items() if inspect.isclass(item)}


def test_every_exception_has_one_root() -> None:
    """A caller who catches LikesetError catches everything that likeset raises on purpose."""
    assert all(issubclass(item, LikesetError) for item in ERRORS.values())
    assert issubclass(InvalidArgument, ValueError)


def test_dir_shows_what_is_public_and_nothing_else() -> None:
    assert dir(likeset) == sorted([*PUBLIC, "__version__"])


@pytest.mark.parametrize("name", ["Schema", "Summarizer", "evaluate", "match"])
def test_the_examples_of_public_things_run(name: str) -> None:
    examples = doctest.DocTestFinder().find(getattr(likeset, name), name)
    runner = doctest.DocTestRunner()
    for example in examples:
        runner.run(example)
    results = runner.summarize(verbose=False)
    assert results.attempted > 0
    assert results.failed == 0


class TestMatch:
    def test_files_come_to_what_the_command_writes(self, tmp_path: Path) -> None:
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

    def test_a_frame_goes_to_the_summarizer(self, tmp_path: Path) -> None:
        world = World.make(tmp_path)
        with pytest.raises(InvalidArgument, match=r"likeset\.Summarizer") as caught:
            likeset.match(
                world.folder / "target.csv",
                {"north": [[1.0]]},  # type: ignore[dict-item]
                schema=world.folder / "schema.yaml",
                size=9,
                out=world.out,
            )
        assert caught.value.argument == "owners['north']"
        assert not world.out.exists()
