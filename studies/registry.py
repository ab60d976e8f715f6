"""The studies by name. A module is loaded when its study is wanted."""

from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module

from likeset.errors import InvalidArgument
from studies.contract import Study

STUDIES = {
    "digits": "studies.comparisons:DIGITS",
    "allstate": "studies.comparisons:ALLSTATE",
    "adult-states": "studies.comparisons:ADULT_STATES",
    "mnist": "studies.comparisons:MNIST",
    "joint": "studies.comparisons:JOINT",
    "joint-families": "studies.labels:FAMILIES",
    "joint-tables": "studies.labels:TABLES",
    "width": "studies.width:STUDY",
    "disease-groups": "studies.disease_groups:STUDY",
    "texts": "studies.texts:STUDY",
    "liars": "studies.liars:STUDY",
    "frontier": "studies.frontier:STUDY",
    "parsimony": "studies.parsimony:STUDY",
    "theory": "studies.theory:STUDY",
    "reconstruction": "studies.reconstruction:STUDY",
    "prices": "studies.prices:STUDY",
}
"""Where each study is, in the order in which they are listed."""


def find_study(name: str) -> Study:
    """The study of that name; a name that is nearly one of ours is answered with ours."""
    if name not in STUDIES:
        near = get_close_matches(name, STUDIES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "there are " + ", ".join(STUDIES)
        raise InvalidArgument("NAME", repr(name), f"is no study; {hint}")
    module, _, variable = STUDIES[name].partition(":")
    study: Study = getattr(import_module(module), variable)
    return study


def all_studies() -> Iterator[Study]:
    """Every study, in order."""
    return (find_study(name) for name in STUDIES)
