"""The studies by name. Each module has its study as ``STUDY``, and is loaded when that study is wanted."""

from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module

from likeset.errors import InvalidArgument
from studies.contract import Study

STUDIES = {
    "digits": "studies.digits",
    "mnist": "studies.mnist",
    "joint": "studies.joint",
    "joint-axes": "studies.joint_axes",
    "joint-families": "studies.joint_families",
    "joint-tables": "studies.joint_tables",
    "liars": "studies.liars",
    "frontier": "studies.frontier",
    "parsimony": "studies.parsimony",
    "theory": "studies.theory",
}
"""Module of each study, in the order in which they are listed."""


def find_study(name: str) -> Study:
    """The study of that name; a name that is nearly one of ours is answered with ours."""
    if name not in STUDIES:
        near = get_close_matches(name, STUDIES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "there are " + ", ".join(STUDIES)
        raise InvalidArgument("NAME", repr(name), f"is no study; {hint}")
    study: Study = import_module(STUDIES[name]).STUDY
    return study


def all_studies() -> Iterator[Study]:
    """Every study, in order."""
    return (find_study(name) for name in STUDIES)
