"""What a party's own process and its worker share, and what compute parties agree on. It needs no jax."""

import dataclasses
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]

_MAGIC = b"LSF1"
_MOST_PARTS = 1 << 16
MOST_BYTES = 1 << 33
"""Of a frame from the party's own other process; what comes from elsewhere has a limit of its own."""


class BadFrame(ValueError):
    """Bytes that no writer of frames wrote."""


@dataclass(frozen=True)
class Frame:
    """What one side tells another."""

    kind: str
    parts: tuple[bytes, ...]


def pack(kind: str, *parts: bytes) -> bytes:
    head = _MAGIC + bytes([len(kind)]) + len(parts).to_bytes(4, "big")
    return b"".join([head, *(len(part).to_bytes(8, "big") for part in parts), kind.encode("ascii"), *parts])


def read_frame(stream: IO[bytes], *, most: int = MOST_BYTES) -> Frame | None:
    """The next frame of a stream, of at most so many bytes; None at its end."""

    def take(count: int) -> bytes:
        data = stream.read(count)
        if len(data) != count:
            raise BadFrame("a frame is cut off")
        return data

    first = stream.read(1)
    if not first:
        return None
    head = first + take(len(_MAGIC) + 4)
    letters, count = head[len(_MAGIC)], int.from_bytes(head[-4:], "big")
    if not head.startswith(_MAGIC) or count > _MOST_PARTS or not letters:
        raise BadFrame("there is something else where a frame should begin, or it has too many parts")
    sizes = take(8 * count)
    lengths = [int.from_bytes(sizes[place : place + 8], "big") for place in range(0, 8 * count, 8)]
    if sum(lengths) > most:
        raise BadFrame("a frame is larger than it may be")
    try:
        kind = take(letters).decode("ascii")
    except UnicodeDecodeError:
        raise BadFrame("the kind of a frame is no ASCII") from None
    return Frame(kind, tuple(map(take, lengths)))


def unpack(data: bytes, *, most: int = MOST_BYTES) -> Frame:
    """The frame that the bytes are, with nothing after it."""
    stream = io.BytesIO(data)
    frame = read_frame(stream, most=most)
    if frame is None or stream.read(1):
        raise BadFrame("there is no frame, or something after a frame")
    return frame


WORD_BITS = 16
"""A number x is shared as the word round(x * 2^16)."""
SECRET_WORDS = 4
"""Words of an offer's 32 secret bytes, which open its envelope."""
CONSUMER = 1
"""The rank that gets picks opened. Rank 0 is the curator, rank 2 the witness."""
PARTIES = 3
"""Curator, consumer and witness."""
TAYLOR = 6.0
"""e^6z has whole coefficients up to z^4: sums, where products would be rounded."""
FEWEST_SQUARES = 3
"""So many times at least is the series of an exponential squared; exponents are counted in TAYLOR times 2 to that."""
MOST_COLUMNS = 1 << 13
"""The rounding of a norm grows with columns; up to so many it is below a hundredth (docs/proofs/split.md, Lemma 2)."""
_WIDEST = 1 << 24  # half of a range, in words: 256.0
_FARTHEST = 1 << 11  # gamma times the largest squared distance from the middle of all ranges


class BadSettings(ValueError):
    """The program cannot be run so."""


@dataclass(frozen=True)
class ProgramSettings:
    """Everything that the program depends on besides shares. All of it is public."""

    offers: int  # slots of all owners together, empty ones included
    target_rows: int
    size: int  # picks, at most ``offers``
    gamma: float  # of the kernel ``exp(-gamma * ||x - y||²)``
    lows: tuple[int, ...]  # for each column the smallest word that its declared range has
    highs: tuple[int, ...]

    def __post_init__(self) -> None:
        # One over the number of target rows has 24 bits: with more of them it would be off by more than a thousandth.
        for name, most in (("offers", 1 << 20), ("target_rows", 1 << 14), ("size", 1 << 20)):
            if not 1 <= getattr(self, name) <= most:
                raise BadSettings(f"{name} must lie between 1 and {most}")
        if self.size > self.offers:
            raise BadSettings("size must be at most the number of offers")
        if not 1 <= len(self.lows) <= MOST_COLUMNS:
            raise BadSettings(f"rows must have between 1 and {MOST_COLUMNS} columns")
        if len(self.lows) != len(self.highs):
            raise BadSettings("lows and highs must have one word for each column")
        halves = [high - low for low, high in zip(self.lows, self.highs, strict=True)]
        if min(halves) < 0 or max(map(abs, (*self.lows, *self.highs))) > _WIDEST:
            raise BadSettings(f"each low must be at most its high, and both within {_WIDEST} words of zero")
        if not 1e-6 <= self.gamma <= 1e6:
            raise BadSettings("gamma must lie between 1e-6 and 1e6")
        if self.gamma * sum((half / 2 / (1 << WORD_BITS)) ** 2 for half in halves) > _FARTHEST:
            raise BadSettings("rows can be too far apart for 64 bits: scale the columns down, or take a smaller gamma")

    @property
    def columns(self) -> int:
        return len(self.lows)

    @property
    def farthest(self) -> float:
        """The largest exponent of a kernel: gamma times the squared distance between the ends of all ranges."""
        pairs = zip(self.lows, self.highs, strict=True)
        return self.gamma * sum(((high - low) / (1 << WORD_BITS)) ** 2 for low, high in pairs)

    @property
    def offer_words(self) -> int:
        """Words that are shared of a slot: its row, whether it is filled, its secret."""
        return self.columns + 1 + SECRET_WORDS

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode("ascii")).hexdigest()


ROUND_STEPS = 25
"""Steps of a round; reading the program takes the engine as long as some steps."""
_STEPS = 50  # picks are made in about so many
_MOST_AT_ONCE = 16
_STRIP = 8  # positions of a strip, at most; fewer where there are few picks, so that it is not the same one each time
_FEWEST_STRIPS = 16
_PASSES = 5  # over all strips, at most; what more of them gain is small
_MORE_PASSES = 2  # beyond one for each position of a strip, at most


def slot_order(offers: int) -> Words:
    hashes = [hashlib.sha256(b"likeset slot %d" % slot).digest() for slot in range(offers)]
    return np.array(sorted(range(offers), key=hashes.__getitem__), dtype=np.int64)


def grid(offers: int, size: int) -> tuple[int, int]:
    """Lines of slots, and slots of a line: as many of them as every step has strips, or twice that, and so on."""
    at_once = _at_once(size)
    line = -(-int(np.ceil(np.sqrt(offers))) // at_once) * at_once
    return -(-offers // line), line


def slot_count(offers: int, size: int) -> int:
    """Slots of the grid, empty ones at its end included."""
    lines, line = grid(offers, size)
    return lines * line


def adding_steps(size: int) -> int:
    """Steps that make picks, until all positions had their turn."""
    return -(-size // _at_once(size))


def seat(size: int, step: int) -> Words:
    """For each position and each strip of slots: 1 where the strip's pick of this step goes there."""
    at_once = _at_once(size)
    goes = np.zeros((size, at_once), dtype=np.int64)
    positions = np.arange(step * at_once, min(size, (step + 1) * at_once))
    goes[positions, positions - step * at_once] = 1
    return goes


def spare_seats(size: int) -> int:
    """Picks that the last step could have made beyond the number of positions."""
    return -size % _at_once(size)


def swapping_steps(size: int) -> int:
    """Steps that swap, each after another visit of a strip of positions; a single pick is the best one already."""
    count, height = _strips(size)
    return 0 if size == 1 else count * min(_PASSES, height + _MORE_PASSES)


def strip(size: int, visit: int) -> Words:
    """For each place of the strip that is visited and each position: 1 where the place is that position.

    Positions stand in rows of as many as there are strips, and a strip has one of each row. In each pass over all
    strips the rows are shifted otherwise against each other, and a pass begins where no position of its first strip
    was in the last one of the pass before: two strips that follow one another have none in common.
    """
    count, height = _strips(size)
    shift, number = divmod(visit, count)
    number += shift * (height - 1)
    rows = np.arange(height)
    positions = rows * count + (number - shift * rows - rows * count) % count
    places = np.zeros((height, size), dtype=np.int64)
    there = positions < size
    places[rows[there], positions[there]] = 1
    return places


def _at_once(size: int) -> int:
    return max(1, min(_MOST_AT_ONCE, size // _STEPS))


def _strips(size: int) -> tuple[int, int]:
    count = -(-size // max(1, min(_STRIP, size // _FEWEST_STRIPS)))
    return count, -(-size // count)


RANGE_TESTS = 64
"""Sums of a row, or of each block of its columns: a row that is far out passes all with probability 2^-64."""
_LARGEST_UNSEEN = 126.0  # of what sums cannot see: its square, with 48 bits behind the point, is below 2^62
_SMALLEST_UNIT = TAYLOR * 2**FEWEST_SQUARES  # of exponents


def range_tests(seed: bytes, settings: ProgramSettings) -> Words:
    """For each column and each sum 1 if the word counts in it, 0 if not.

    Sums are of blocks of columns, in which no word can be too large for the norm to be computed. In a block of no more
    columns than there would be sums each word is a sum by itself.
    """
    widths = np.diff(_blocks(settings))
    tests = np.zeros((settings.columns, int(np.minimum(widths, RANGE_TESTS).sum())), dtype=np.int64)
    stream = hashlib.shake_256(b"likeset split ranges" + seed).digest(8 * settings.columns)
    drawn = np.unpackbits(np.frombuffer(stream, dtype=np.uint8)).reshape(settings.columns, RANGE_TESTS)
    column, test = 0, 0
    for width in widths.tolist():
        block = drawn[column : column + width] if width > RANGE_TESTS else np.eye(width, dtype=np.int64)
        tests[column : column + width, test : test + block.shape[1]] = block
        column, test = column + width, test + block.shape[1]
    return tests


def _blocks(settings: ProgramSettings) -> Words:
    halves = (np.array(settings.highs) - np.array(settings.lows) + 1) / 2 / (1 << WORD_BITS)
    sums = np.concatenate([[0.0], np.cumsum(halves)])
    count = 1
    while True:
        ends = np.linspace(0, settings.columns, count + 1).astype(np.int64)
        unseen = 2 * np.diff(sums[ends]) * np.sqrt(settings.gamma / _SMALLEST_UNIT)
        if (unseen[np.diff(ends) > RANGE_TESTS] <= _LARGEST_UNSEEN).all():
            return ends
        count += 1


ENGINE_VERSION = "0.9.5"
RUNTIME_FIELDS: dict[str, int | bool | str] = {
    "protocol": "ABY3",
    "field": "FM64",
    "fxp_fraction_bits": 24,  # with 10 iterations exponentials are right to 3e-4; the engine's own choice gives 1e-3
    "fxp_exp_iters": 10,
    "fxp_exp_mode": "EXP_DEFAULT",
    "fxp_div_goldschmidt_iters": 2,
    "fxp_log_iters": 3,
    "fxp_log_mode": "LOG_DEFAULT",
    "fxp_log_orders": 8,
    "sigmoid_mode": "SIGMOID_DEFAULT",
    "sine_cosine_iters": 10,
    "sort_method": "SORT_DEFAULT",
    "quick_sort_threshold": 32,
    "max_concurrency": 0,
    "public_random_seed": 0,
    "share_max_chunk_size": 128 << 20,
    "trunc_allow_msb_error": False,  # true would let a truncation be wrong by 2^40
    "enable_lower_accuracy_rsqrt": False,
    "enable_type_checker": False,
    "enable_action_trace": False,
    "enable_pphlo_trace": False,
    "enable_hal_profile": False,
    "enable_pphlo_profile": False,
    "enable_runtime_snapshot": False,
    "snapshot_dump_dir": "",
    "beaver_type": "TrustedFirstParty",  # of SEMI2K, which is never used: its first party would have to be trusted
    "experimental_disable_mmul_split": False,
    "experimental_disable_vectorization": False,
    "experimental_enable_colocated_optimization": False,
    "experimental_enable_exp_prime": False,
    "experimental_enable_inter_op_par": False,
    "experimental_enable_intra_op_par": False,
    "experimental_exp_prime_disable_lower_bound": False,
    "experimental_exp_prime_enable_upper_bound": False,
    "experimental_exp_prime_offset": 0,
    "experimental_inter_op_concurrency": 8,
}
_OBJECTS = {"cheetah_2pc_config", "ttp_beaver_config"}  # left as the engine makes them


class BadRuntime(ValueError):
    """The engine is not configured as the program's digest says."""


def check_runtime(fields: Mapping[str, Any]) -> None:
    """Raise unless these are all fields of a configuration, and each is what the program's digest says."""
    for name in sorted(fields.keys() - RUNTIME_FIELDS.keys() - _OBJECTS):
        raise BadRuntime(f"the engine has a field {name} that the program does not know")
    for name, value in RUNTIME_FIELDS.items():
        if name not in fields or fields[name] != value or type(fields[name]) is not type(value):
            raise BadRuntime(f"the engine's field {name} is not what the program's digest says")


_NONCE_BYTES = 32
_MOST_LETTERS = 1 << 12
_ENOUGH = 2  # each of the three shares is held by two parties


class Disagreement(ValueError):
    """The compute parties do not want the same thing, or one of them does not keep to the rules."""


@dataclass(frozen=True)
class Statement:
    """What a compute party says first."""

    program: str  # digest of the program's files and of the lock file
    settings: str  # digest
    inputs: str  # digest of the roster and of the commitments to the target
    commitment: str  # SHA-256 of the number that it will tell
    keeps: bool  # whether it stores its share of picks that were opened before

    def to_text(self) -> str:
        return json.dumps([self.program, self.settings, self.inputs, self.commitment, self.keeps])

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What ``to_text`` wrote, and nothing else: it comes from another party."""
        try:
            if len(text) > _MOST_LETTERS:
                raise ValueError
            program, settings, inputs, committed, keeps = json.loads(text)
            words = (program, settings, inputs, committed)
            if not all(isinstance(word, str) for word in words) or not isinstance(keeps, bool):
                raise TypeError
        except (ValueError, TypeError):
            raise Disagreement("a compute party said something else than what it runs") from None
        return cls(program, settings, inputs, committed, keeps)


def keepers(statements: Sequence[Statement]) -> list[int]:
    """The ranks that store their share of picks that were opened before; nobody if the computation is to begin.

    A ``Disagreement``: they run different programs, settings or inputs; or picks were opened, and one share is left.
    """
    for name in ("program", "settings", "inputs"):
        if len({getattr(statement, name) for statement in statements}) != 1:
            raise Disagreement(f"the compute parties do not have the same {name}")
    ranks = [rank for rank, statement in enumerate(statements) if statement.keeps]
    if ranks and len(ranks) < _ENOUGH:
        raise Disagreement("picks were opened before, and only one party has kept its share of them")
    return ranks


def commitment(nonce: bytes) -> str:
    """The hash by which a party binds itself to the number that it will tell."""
    return hashlib.sha256(b"likeset split nonce" + nonce).hexdigest()


def joint_seed(statements: Sequence[Statement], nonces: Sequence[str]) -> bytes:
    """32 bytes from the numbers that all parties told, each as it had bound itself to it, and none twice."""
    numbers = []
    for statement, nonce in zip(statements, nonces, strict=True):
        number = bytes.fromhex(nonce) if set(nonce) <= set("0123456789abcdef") and len(nonce) % 2 == 0 else b""
        if len(number) != _NONCE_BYTES or commitment(number) != statement.commitment:
            raise Disagreement("a compute party told another number than it had bound itself to")
        numbers.append(number)
    if len(set(numbers)) != len(numbers):
        raise Disagreement("a compute party repeated another's number")
    return hashlib.sha256(b"likeset split seed" + b"".join(numbers)).digest()


def checksum_factors(seed: bytes, words: int) -> Words:
    """One factor of 64 bits for each word of a row."""
    stream = hashlib.shake_256(b"likeset split checksum" + seed).digest(8 * words)
    return np.frombuffer(stream, dtype="<i8").astype(np.int64)


AGAIN = "sending again what was opened"
"""What a worker tells in place of a stage where another party asked for what was opened before."""


@dataclass(frozen=True)
class Task:
    """What a party's own process asks of its worker."""

    settings: ProgramSettings
    rank: int
    program: str  # digest
    inputs: str  # digest
    attempt: str  # names the links of this attempt, alike at all parties, and never again
    addresses: tuple[str, ...]  # for each rank where to reach it: ``unix:`` and a path
    timeout: int  # seconds after which silence is a failure

    def to_bytes(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        said = json.loads(data)
        if not all(address.startswith("unix:/") for address in said["addresses"]):
            raise ValueError("the engine is reached by sockets in the file system only")
        told = said["settings"]
        settings = ProgramSettings(**{**told, "lows": tuple(told["lows"]), "highs": tuple(told["highs"])})
        return cls(**{**said, "settings": settings, "addresses": tuple(said["addresses"])})
