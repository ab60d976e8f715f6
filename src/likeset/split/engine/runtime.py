"""The engine's configuration: every field of it is named here, and a field that is not is a reason to stop.

Traces, profiles and snapshots would write values of a run down; experimental options are nobody's promise.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["ENGINE_VERSION", "RUNTIME_FIELDS", "BadRuntime", "check_runtime"]

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
    """These are all fields of a configuration, and each is what the program's digest says.

    Raises:
        BadRuntime: one differs, is missing, or is not known here.
    """
    for name in sorted(fields.keys() - RUNTIME_FIELDS.keys() - _OBJECTS):
        raise BadRuntime(f"the engine has a field {name} that the program does not know")
    for name, value in RUNTIME_FIELDS.items():
        if name not in fields or fields[name] != value or type(fields[name]) is not type(value):
            raise BadRuntime(f"the engine's field {name} is not what the program's digest says")
