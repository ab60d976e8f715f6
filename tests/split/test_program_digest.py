"""The digest names all that runs in a worker; its modules need nothing of likeset; the engine writes no traces."""

import ast
import shutil
import sys
from pathlib import Path

import pytest

from likeset.split import host
from likeset.split.engine.agreement import RUNTIME_FIELDS, BadRuntime, check_runtime
from likeset.split.host import ENGINE_FOLDER, LOCK_FILE, program_digest

ALLOWED = {"jax", "numpy", "spu"} | set(sys.stdlib_module_names)
FORBIDDEN = {"pickle", "marshal", "shelve", "ctypes", "socket", "subprocess", "tempfile", "multiprocessing"}
MODULES = sorted(ENGINE_FOLDER.glob("*.py"))


def imported(path: Path) -> set[str]:
    """First words of all that a module imports; a dot for its own package."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level == 1 else "." * node.level or (node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("path", MODULES, ids=[path.name for path in MODULES])
def test_a_workers_module_imports_what_its_environment_has(path: Path) -> None:
    assert imported(path) <= ALLOWED | {"."}
    assert not imported(path) & FORBIDDEN


@pytest.mark.parametrize("path", MODULES, ids=[path.name for path in MODULES])
def test_a_worker_opens_no_file_and_never_uses_the_engines_pickles(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "distributed" not in text
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
    }
    assert not called & {"open", "read_text", "read_bytes", "write_text", "write_bytes", "eval", "exec"}


def test_a_change_of_code_or_lock_file_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, lock = tmp_path / "engine", tmp_path / "lock"
    shutil.copytree(ENGINE_FOLDER, copy)
    shutil.copy(LOCK_FILE, lock)
    digests = {program_digest()}
    monkeypatch.setattr(host, "ENGINE_FOLDER", copy)
    monkeypatch.setattr(host, "LOCK_FILE", lock)
    assert digests == {program_digest()}
    for path in [*sorted(copy.glob("*.py")), lock]:
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        digests.add(program_digest())
        path.write_bytes(before)
    (copy / "program.py").rename(copy / "other.py")
    digests.add(program_digest())
    assert len(digests) == len(MODULES) + 3


def test_the_engine_writes_nothing_down_and_runs_no_experiments() -> None:
    fields = RUNTIME_FIELDS
    assert not any(value for name, value in fields.items() if name.startswith("enable_") or "snapshot" in name)
    assert not any(value for name, value in fields.items() if name.startswith("experimental_") and value is True)
    assert fields["protocol"] == "ABY3"
    check_runtime(fields)
    with pytest.raises(BadRuntime):
        check_runtime({name: value for name, value in fields.items() if name != "enable_pphlo_trace"})


@pytest.mark.parametrize(
    "changed",
    [
        {"enable_pphlo_trace": True},
        {"enable_action_trace": 1},
        {"enable_runtime_snapshot": True},
        {"protocol": "SEMI2K"},
        {"protocol": "REF2K"},
        {"fxp_fraction_bits": 18},
        {"trunc_allow_msb_error": True},
        {"experimental_enable_colocated_optimization": True},
        {"something_new": False},
    ],
)
def test_any_other_configuration_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(BadRuntime):
        check_runtime({**RUNTIME_FIELDS, **changed})
