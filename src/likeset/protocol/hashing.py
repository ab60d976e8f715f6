"""The secret feature map of hash-only runs: owners and consumer share its seed, the curator never has it.

The terms carry a commitment to the seed, so that parties who were given different seeds notice before a hash leaves
them: hashes by different maps cannot be compared, and the summary would be noise.

The commitment is a plain SHA-256 under a name of its own. It hides the seed because the seed is a 256-bit number drawn
uniformly (``secrets.randbits(256)``): there is nothing to try out. A salt would lie in the terms beside the commitment
and so would not help a seed that can be guessed; small numbers are refused instead. It binds because two seeds with
one commitment would be a collision of SHA-256.

What the seed protects is little more than the place of the origin and the axes: whoever has the hashes has all
distances between rows, and whoever has hashes *and* the seed (any owner, the consumer) has the rows themselves.
"""

import hashlib
import hmac

from likeset import arguments
from likeset.errors import IllegalMessage
from likeset.geometry.features import FourierFeatures
from likeset.geometry.stream import MAX_SEED
from likeset.protocol.term_parts import Hashing
from likeset.protocol.terms import Terms

__all__ = ["check_seed", "commitment", "hash_map"]

_LEAST_SEED = 1 << 128
"""A seed drawn from all 256-bit numbers is smaller with probability 2**-128; one that is was made up."""


def commitment(seed: int) -> str:
    """What the terms say about the secret seed.

    Args:
        seed: drawn uniformly from all 256-bit numbers, known to owners and consumer alone.
    """
    number = arguments.count("seed", seed, least=_LEAST_SEED, most=MAX_SEED, most_is="a 256-bit number")
    return hashlib.sha256(b"likeset/hash-only/seed/1\n" + number.to_bytes(32, "big")).hexdigest()


def check_seed(terms: Terms, seed: int) -> Hashing:
    """Raise unless this is the seed of the terms; no map is built for that.

    Raises:
        IllegalMessage: the terms foresee no hashes, or are committed to another seed.
    """
    if terms.hashing is None:
        raise IllegalMessage(f"the terms of run {terms.run} foresee no hashes")
    if not hmac.compare_digest(commitment(seed), terms.hashing.commitment):
        raise IllegalMessage(f"the seed is not the one that the terms of run {terms.run} are committed to")
    return terms.hashing


def hash_map(terms: Terms, seed: int) -> FourierFeatures:
    """The map by which rows are hashed in this run.

    Raises:
        IllegalMessage: the terms foresee no hashes, or are committed to another seed.
    """
    hashing = check_seed(terms, seed)
    return FourierFeatures(terms.kernel.columns, hashing.dimension, hashing.gamma, seed, "phased")
