"""Widths of the kernels that a plan settles: what public facts give, and whether rows can be told apart by them."""

import numpy as np

from likeset import arguments
from likeset.arguments import Rows
from likeset.errors import InvalidArgument
from likeset.geometry.kernels import median_gamma
from likeset.privacy import width_choice
from likeset.privacy.schedules import GAMMA
from likeset.protocol.run_settings import RunSettings
from likeset.protocol.selection import is_usable_width
from likeset.protocol.term_parts import RELEASE_SCALE
from likeset.run.inputs import Inputs
from likeset.run.split_plan import is_split

__all__ = ["NO_WIDTH", "check_scale", "check_width", "gamma_by_median", "public_width"]

NO_WIDTH = 1.0
"""Stands where a width is not known yet, or nobody uses it."""

_DIGITS_SINGLE, _DIGITS_DOUBLE = 24, 50  # binary ones; owners thin in single precision, a curator goes to double


def public_width(wishes: RunSettings, inputs: Inputs, *, released: bool) -> float | None:
    """The width of the release's kernel as far as public facts give it; None if it must be chosen privately."""
    if wishes.release_gamma is not None:
        gamma = arguments.positive("release_gamma", wishes.release_gamma)
    elif inputs.public_rows is not None:
        gamma = gamma_by_median("public_rows", inputs.public_rows, scale=RELEASE_SCALE)
    elif wishes.schedule == "experiment":
        gamma = GAMMA
    elif released:
        return None
    elif not is_split(wishes) or wishes.gamma != "median":
        return NO_WIDTH  # nobody uses it
    else:
        reason = "must be a number: the kernel of a split curator is public, and nothing is released that it could "
        reason += "follow from; give gamma, release_gamma or public_rows"
        raise InvalidArgument("gamma", "'median'", reason)
    check_width("release_gamma", gamma, inputs)
    return gamma


def check_width(argument: str, gamma: float, inputs: Inputs, *, scale: float | None = None) -> None:
    """Exponents of the kernel must be numbers in single precision, and what rounding leaves of them below 1.

    Args:
        argument: by which the user chose it.
        gamma: of the kernel.
        inputs: the rows.
        scale: what the user gave, where gamma is that times the median rule's.
    """
    in_thinning = argument == "release_gamma"
    finest, digits = (gamma / RELEASE_SCALE, _DIGITS_SINGLE) if in_thinning else (gamma, _DIGITS_DOUBLE)
    if not is_usable_width(gamma, inputs.largest_squared_norm) or _loses_exponents(finest, inputs, digits=digits):
        raise InvalidArgument(
            argument,
            f"{gamma if scale is None else scale:g}",
            f"{'' if scale is None else f'makes gamma {gamma:g}, which '}is too large for these rows: a kernel of them "
            "is not a number; scale them to about 1",
        )


def check_scale(inputs: Inputs, *, released: bool) -> None:
    """Where the release's width comes from the public grid, rows must lie as near to one another as that expects.

    Args:
        inputs: the rows.
        released: whether there is a release of that width, so that rows must lie far enough apart as well.
    """
    nearest = min(width_choice.grid(inputs.target.shape[1]))
    if _loses_exponents(max(NO_WIDTH, RELEASE_SCALE / nearest) / RELEASE_SCALE, inputs, digits=_DIGITS_SINGLE):
        how = "is not scaled, or owners' rows are not: some lie hundreds of units from its middle"
    elif released and 0.0 < (inputs.largest_squared_distance or 0.0) < nearest:
        how = (
            "is not scaled: all rows lie within a few hundredths of a unit, so that a release could not tell them apart"
        )
    else:
        return
    remedy = "divide each column by a spread that is public knowledge, or give release_gamma"
    raise InvalidArgument(
        "target",
        f"array of shape {inputs.target.shape}",
        f"{how}, where a unit should be about the spread of a column; {remedy}",
    )


def _loses_exponents(gamma: float, inputs: Inputs, *, digits: int) -> bool:
    """Whether rounding alone moves an exponent of the kernel by 1 or more; never where a schema bounds the rows."""
    return 4.0 * gamma * (inputs.largest_squared_distance or 0.0) >= 2.0**digits


def gamma_by_median(argument: str, rows: Rows, *, scale: float) -> float:
    """By the median squared distance; an error names the argument that the caller gave."""
    try:
        return median_gamma(rows, scale=scale, coins=np.random.default_rng(0))
    except InvalidArgument as error:
        raise InvalidArgument(argument, error.value, error.reason) from error
