"""Every setting is declared once, in ``likeset.protocol.terms``: whatever else names it says the same."""

import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest

from likeset import Interactive, Summarizer, match
from likeset.app import cli
from likeset.app.cli.match import job_from
from likeset.errors import BadDocument, InvalidArgument
from likeset.protocol.terms import Setting, names_from, settings
from likeset.run.job import Job

SETTINGS = {setting.name: setting for setting in settings()}
FILES = {"schema": "schema.yaml", "target": "mine.csv", "size": 5}
_OF_ARRAYS = {"schema", "rows_per_unit", "ledger", "run", "progress"}
_OF_A_JOB = {"likeset", "version", "preset", "schema_file", "target", "owners", "public_rows", "seed_rows"}
_OF_A_JOB |= {"consumer", "curator_card", "witness", "purpose", "ledger", "out", "run"}


FIRST = ["size", "epsilon", "delta", "schema", "labels", "weights", "offers", "offer_factor", "gamma", "curator"]
FIRST += ["ledger", "random_state"]


def test_the_summarizer_takes_what_is_declared_and_first_what_people_set() -> None:
    parameters = inspect.signature(Summarizer).parameters
    assert list(parameters)[: len(FIRST)] == FIRST
    declared = {setting.argument: setting for setting in settings() if not setting.is_of_interactive}
    assert set(parameters) - _OF_ARRAYS == set(declared)
    for name, setting in declared.items():
        kind = setting.type | Interactive if name == "protocol" else setting.type
        default = inspect.Parameter.empty if setting.is_required else setting.default
        assert (parameters[name].annotation, parameters[name].default) == (kind, default), name


def test_the_summarizer_describes_every_argument_in_the_declared_words() -> None:
    text = " ".join((inspect.getdoc(Summarizer) or "").split())
    missing = {setting.name for setting in settings() if f" {setting.argument}: {setting.meaning}." not in text}
    assert missing == {setting.name for setting in settings() if setting.is_of_interactive}
    described = re.findall(
        r"^    (\w+): ", (inspect.getdoc(Summarizer) or "").partition("Attributes:")[0], re.MULTILINE
    )
    assert described == list(inspect.signature(Summarizer).parameters)


def test_a_setting_that_does_not_exist_is_refused_with_a_near_miss() -> None:
    with pytest.raises(TypeError, match="did you mean quorum"):
        Summarizer(3, quroum=2)
    with pytest.raises(BadDocument) as refused:
        match("mine.csv", {"north": "north.csv"}, schema="schema.yaml", size=3, out="matched", quroum=2)
    assert refused.value.field == "quroum"


def test_a_job_has_the_declared_fields() -> None:
    assert set(Job.model_fields) - _OF_A_JOB == set(SETTINGS)
    for name, setting in SETTINGS.items():
        field = Job.model_fields[name]
        assert (field.is_required(), field.annotation) == (setting.is_required, setting.type)
        assert setting.is_required or field.default == setting.default


def test_a_preset_sets_what_nothing_else_says(tmp_path: Path) -> None:
    """In a file, as an option, and as an option beside a file."""
    files = {**FILES, "owners": ["north=north.csv"]}
    plain, preset = tmp_path / "plain.yaml", tmp_path / "preset.yaml"
    text = "likeset: job\nversion: 1\nschema: s\ntarget: t\nowners: {a: b}\nsize: 3\nauction: everyone\n"
    plain.write_text(text)
    preset.write_text(text + "preset: paper\n")
    wished = [job_from(None, **files, preset="paper", auction="everyone"), job_from(plain, preset="paper")]
    wished += [Job.load(preset), job_from(preset, auction="everyone"), job_from(preset, size=3)]
    for job in wished:
        assert (job.protocol, job.summary_release, job.schedule) == ("interactive", "mwem", "experiment")
        assert (job.auction, job.accept_unproven) == ("everyone", ())
    assert job_from(None, **files, preset="paper").auction == "paper"
    published = Interactive.as_published().settings()
    assert {name: getattr(job_from(None, **files, preset="paper"), name) for name in published} == published
    with pytest.raises(BadDocument, match="preset"):
        job_from(None, **files, preset="papers")


@pytest.mark.parametrize("command", ["match", "plan"])
def test_every_field_of_a_job_is_an_option_that_says_what_it_means(command: str) -> None:
    options: dict[str | None, Any] = {one.name: one for one in cli.whole_program().commands[command].params}
    renamed = {"schema_file": "schema", "owners": "owner"}
    expected = {renamed.get(name, name) for name in Job.model_fields} - {"likeset", "version"}
    expected -= {"curator_card", "witness"}  # only runs between organisations name them, in a job file
    assert expected <= set(options)
    for name, setting in SETTINGS.items():
        words = options[name].help
        assert words.lower().startswith(setting.meaning.replace("``", "").lower())
        assert options[name].default is None  # what a job file says counts unless an option is given


def given(setting: Setting) -> tuple[Any, Any]:
    unusual = {int: 7, float: 0.25, bool: not setting.default, str: "word", tuple[str, ...]: ("a", "b")}
    kind = next((part for part in typing.get_args(setting.type) if part in unusual), setting.type)
    if typing.get_origin(setting.type) is typing.Literal:
        value: Any = typing.get_args(setting.type)[-1]
        return value, value
    value = unusual[tuple[str, ...] if setting.type == tuple[str, ...] else kind]
    is_text = any(typing.get_origin(part) is typing.Literal for part in typing.get_args(setting.type))
    return (str(value) if is_text else list(value) if isinstance(value, tuple) else value), value


@pytest.mark.parametrize("name", SETTINGS)
def test_an_option_sets_its_field(name: str) -> None:
    typed, value = given(SETTINGS[name])
    job = job_from(None, **{**FILES, "owners": ["north=north.csv"], name: typed})
    assert getattr(job, name) == value
    assert value != SETTINGS[name].default


@pytest.mark.parametrize(("name", "words"), [("gamma", "a number or median"), ("dimension", "a whole number or auto")])
def test_a_word_in_a_numbers_place_is_refused_by_its_option(name: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=f"--{name} = wide.*must be {words}"):
        job_from(None, **{**FILES, "owners": ["north=north.csv"], name: "wide"})


def test_what_stands_in_the_terms_as_set_is_a_setting() -> None:
    assert set(names_from("setting")) <= {setting.name for setting in settings()}
