"""What is planned otherwise where the curator is split: what is public and what is lost."""

import numpy as np

from likeset import arguments
from likeset.errors import InvalidArgument
from likeset.protocol.notices import LabelsNotMatched, LikenessInSample, Notice, PublicWidth, SplitCurator
from likeset.protocol.run_settings import RunSettings
from likeset.protocol.split.split_terms import SplitShape, largest_split, largest_split_gamma
from likeset.protocol.term_parts import RELEASE_SCALE
from likeset.run.inputs import Inputs
from likeset.split.digest import program_digest
from likeset.split.engine.settings import MOST_COLUMNS

__all__ = [
    "check_split_width",
    "is_split",
    "planned_split",
    "split_notes",
    "split_range",
    "split_width",
]


def is_split(wishes: RunSettings) -> bool:
    """Whether the curator is to be split; what ``auto`` means between organisations is settled before."""
    return arguments.one_of("curator", wishes.curator, ("auto", "trusted", "split")) == "split"


def planned_split(wishes: RunSettings) -> SplitShape | None:
    """Who computes, and which program; None where the curator is trusted.

    Raises:
        InvalidArgument: something is wished that a split curator cannot do.
    """
    if not is_split(wishes):
        return None
    if wishes.protocol == "interactive":
        raise InvalidArgument("curator", "split", "goes with the sealed protocol; interactive needs a trusted curator")
    if wishes.auction not in ("auto", "everyone"):
        raise InvalidArgument("curator", "split", f"asks everyone; auction {wishes.auction} needs a trusted curator")
    size = arguments.count("size", wishes.size)
    return SplitShape(program_digest(), size)


def split_width(wishes: RunSettings, inputs: Inputs, release_gamma: float) -> float:
    """Gamma of a split selection: as wished, or from the release's own width; never from the target's distances.

    What follows from the release is no narrower than what 64 bits hold, by the range that a schema declares.

    Args:
        wishes: of the user.
        inputs: whose declared range counts, and nothing of whose rows.
        release_gamma: of the release's kernel.
    """
    if wishes.gamma != "median":
        return arguments.positive("gamma", wishes.gamma)
    gamma, columns = wishes.gamma_scale * release_gamma / RELEASE_SCALE, inputs.target.shape[1]
    if inputs.declared is None:
        return gamma
    return min(gamma, largest_split_gamma(inputs.declared.largest_entry, columns))


def split_range(inputs: Inputs, gamma: float) -> float:
    """How large numbers of rows may be: as a schema declares, else as large as 64 bits hold."""
    return largest_split(gamma, inputs.target.shape[1]) if inputs.declared is None else inputs.declared.largest_entry


def check_split_width(wishes: RunSettings, inputs: Inputs, split: SplitShape, release_gamma: float) -> None:
    """What 64 bits cannot hold shows before anything is spent; of bare arrays the target is looked at, at home.

    Raises:
        InvalidArgument: the kernel is too narrow for these rows, or they have too many columns.
    """
    columns = inputs.target.shape[1]
    if columns > MOST_COLUMNS:
        reason = f"shares rows of at most {MOST_COLUMNS:,} numbers; these have {columns:,}"
        raise InvalidArgument("curator", "split", reason)
    gamma = split.drawn(gamma=split_width(wishes, inputs, release_gamma)).gamma
    largest = float(np.abs(inputs.target).max()) if inputs.declared is None else inputs.declared.largest_entry
    most = largest_split(gamma, columns)
    if largest > most:
        reason = f"is too large for a split curator: rows may then have numbers of up to {most:.4g}; scale them down"
        raise InvalidArgument("gamma", f"{gamma:g}", reason)


def split_notes(wishes: RunSettings, split: SplitShape | None) -> tuple[Notice, ...]:
    """What a user should know about a split curator."""
    if split is None:
        return ()
    lost = [
        *([LabelsNotMatched()] if wishes.labels == "match" else []),
        *([LikenessInSample()] if wishes.folds else []),
        *([PublicWidth()] if wishes.gamma == "median" else []),
    ]
    return (SplitCurator(), *lost)
