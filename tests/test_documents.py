"""Documents that people write: every mistake becomes one message with file, line, field and what to do."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from likeset import documents
from likeset.documents import Document
from likeset.errors import BadDocument
from screens import Screens


class Circle(Document):
    kind: Literal["circle"]
    radius: Annotated[float, Field(gt=0)]


class Box(Document):
    kind: Literal["box"]
    sides: tuple[float, float]
    fill: Literal["solid", "dotted"] = "solid"


class Drawing(Document):
    likeset: Literal["drawing"]
    version: Literal[1]
    shapes: dict[str, Annotated[Circle | Box, Field(discriminator="kind")]] = Field(default_factory=dict)
    words: tuple[str, ...] = ()
    copies: int = 1
    framed: bool = False
    note: Any = None


HEAD = "likeset: drawing\nversion: 1\n"


def parsed(text: str) -> Drawing:
    return documents.read_text(text, Drawing, name="drawing.yaml")


def complaint(text: str) -> str:
    with pytest.raises(BadDocument) as caught:
        parsed(text)
    return str(caught.value)


MISTAKES = (
    "", "- a\n- b\n", f"{HEAD}copies: [1\n", f"{HEAD}copies: 1\ncopies: 2\n", f"{HEAD}\ncopys: 2\n",
    f"{HEAD}zzz: 2\n", f"{HEAD}copies: two\n", f"{HEAD}copies: 1.5\n", f"{HEAD}framed: yes\n", f"{HEAD}words: one\n",
    f"{HEAD}words:\n  - one\n  - 2\n", f"{HEAD}shapes: 3\n", "version: 1\n", "likeset: schema\nversion: 1\n",
    "likeset: drawing\nversion: 2\n", f"{HEAD}shapes:\n  a:\n    kind: circle\n    radios: 2\n",
    f"{HEAD}shapes:\n  a: {{kind: circel, radius: 1}}\n", f"{HEAD}shapes:\n  a: {{radius: 1}}\n",
    f"{HEAD}shapes:\n  a: {{kind: circle, radius: -1}}\n", f"{HEAD}note: &a [1]\nwords: *a\n",
    f"{HEAD}note: !!python/object:os.system {{}}\n", f"{HEAD}note: !!binary aGk=\n",
    f"{HEAD}note: {'[' * 40}{']' * 40}\n", f'{HEAD}note: "\\ud800"\n', f'{HEAD}"\\ud800": 1\n',
    f"{HEAD}{''.join(f'z{number}: 1{chr(10)}' for number in range(3000))}", f"{HEAD}? [a, b]\n: 1\n",
    f"{HEAD}---\n{HEAD}", f"{HEAD}note: a\x01b\n", f"{HEAD}note: {'a' * 1_000_000}\n",
)  # fmt: skip


def test_a_mistake_is_named_by_file_line_field_and_remedy(screens: Screens) -> None:
    screens.table("messages", {repr(text[:80]): complaint(text) for text in MISTAKES})


def test_the_bytes_of_an_alias_bomb_are_refused_before_they_grow() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9)]
    assert "aliases" in complaint("\n".join(lines))


def test_words_that_other_readers_take_for_something_else_stay_words() -> None:
    """YAML 1.1 reads no as false, 12:30 as 750, 0123 as 83, and a date as a date."""
    assert parsed(f"{HEAD}words: [no, Yes, on, 12:30, 0123, 2026-07-31]\n").words == (
        "no", "Yes", "on", "12:30", "0123", "2026-07-31",
    )  # fmt: skip
    assert parsed(f"{HEAD}note: [1e-5, 1_000, 0x10, .5, -3, ~, 1., null]\n").note == [
        1e-5, "1_000", "0x10", 0.5, -3, None, 1.0, None,
    ]  # fmt: skip


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    def of(path: Path) -> str:
        with pytest.raises(BadDocument) as caught:
            documents.read(path, Drawing)
        return str(caught.value)

    assert of(tmp_path / "none.yaml") == f"{tmp_path / 'none.yaml'}: there is no such file"
    assert "is a directory" in of(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.yaml")  # nobody ever writes to it
        assert "is not an ordinary file; save what is in it to one" in of(tmp_path / "pipe.yaml")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(f"{HEAD}note: ".encode() + "müde".encode("latin-1"))
    assert of(latin) == f"{latin}, line 3: is not UTF-8 text; save it as UTF-8"
    picture = tmp_path / "picture.yaml"
    picture.write_bytes(b"\x89PNG\0\0\xff")
    assert "is not UTF-8 text" in of(picture)
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"a" * 2_000_000)
    assert "is larger than" in of(huge)
    marked = tmp_path / "marked.yaml"
    marked.write_bytes(b"\xef\xbb\xbf" + HEAD.encode())
    assert documents.read(marked, Drawing).copies == 1


text_values = st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)


@given(st.lists(text_values | st.sampled_from(["no", "1e5", "0123", "~", "", "true", "2020-01-01", "1:2", "- a"])))
def test_what_is_written_is_read_back(words: list[str]) -> None:
    drawing = Drawing(likeset="drawing", version=1, words=tuple(words))
    content = drawing.model_dump(mode="json")
    assert parsed(documents.to_yaml(content)) == drawing


def test_a_model_is_written_with_short_lists_on_one_line_and_no_defaults(tmp_path: Path) -> None:
    path = tmp_path / "out.yaml"
    model = parsed(f"{HEAD}shapes:\n  a: {{sides: [1, 2.5], kind: box}}\n")
    documents.write(path, model)
    assert path.read_text() == f"{HEAD}shapes:\n  a:\n    kind: box\n    sides: [1, 2.5]\n"
    assert documents.read(path, Drawing) == model
    assert [one.name for one in tmp_path.iterdir()] == ["out.yaml"]


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.yaml"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadDocument, match="cannot be written: No space left on device"):
        documents.write(path, {"a": 1})
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["out.yaml"]
