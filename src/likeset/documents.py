"""The files that people write, such as ``schema.yaml``: YAML in, a checked model out, and errors that name the line.

The YAML is the unambiguous part: only ``true`` and ``false`` are truth values (``no`` and ``on`` are words), dates and
``0123`` are text, and aliases, tags and duplicate keys are refused.
"""

import json
import os
import re
import stat
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from likeset.errors import BadDocument
from likeset.files import keep_private
from likeset.text import near_miss

_MOST_BYTES = 1_000_000
_OTHERS = 0o077
_MOST_NESTED = 32
_MOST_PROBLEMS = 20
_LARGEST_PLAIN = 1e15
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null")}
_INTEGER = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$")
_FLOAT = re.compile(
    r"^[-+]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)\.?)(?:[eE][-+]?[0-9]+)?$|^[-+]?\.inf$|^\.nan$"
)
_BOOLEAN = re.compile(r"^(?:true|false|True|False)$")
_NULL = re.compile(r"^(?:~|null|)$")


class Document(BaseModel):
    """Base of models of documents and their parts: no unknown fields, no silent conversions, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


Model = TypeVar("Model", bound=BaseModel)


def read(path: str | os.PathLike[str], model: type[Model]) -> Model:
    """Read a document from a file."""
    name, content = os.fspath(path), bytes_in(Path(path), most=_MOST_BYTES)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        reason = "is not UTF-8 text; save it as UTF-8"
        raise BadDocument(name, reason, line=None if b"\0" in content else line) from error
    return read_text(text, model, name=name)


def bytes_in(path: Path, *, most: int, missing: str = "there is no such file", secret: bool = False) -> bytes:
    """Read an ordinary file, at most one byte beyond ``most``; a pipe does not block."""
    name = str(path)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadDocument(name, "is not an ordinary file; save what is in it to one, and name that")
            content = file.read(most + 1)
    except FileNotFoundError:
        raise BadDocument(name, missing) from None
    except IsADirectoryError as error:
        raise BadDocument(name, "is a directory; name the file in it") from error
    except OSError as error:
        raise BadDocument(name, f"cannot be read: {error.strerror}") from error
    mode = stat.S_IMODE(status.st_mode)
    if secret and os.name == "posix" and mode & _OTHERS:
        raise BadDocument(name, f"other users can read it (mode {mode:04o}), and it is secret; chmod 600 it")
    return content


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_text(text: str, model: type[Model], *, name: str) -> Model:
    """Read a document from a text; errors call the file ``name``."""
    if len(text) > _MOST_BYTES:
        raise BadDocument(name, f"is larger than {_MOST_BYTES:,} bytes; such documents are short")
    root = _compose(text, name)
    if root is None:
        raise BadDocument(name, "is empty")
    content = _plain(root, name, path=(), loader=_Loader(""))
    if not isinstance(content, dict):
        raise BadDocument(name, "must consist of lines such as 'version: 1'", line=_line(root))
    try:
        # Through JSON, since pydantic's strict rules for it take a list for a tuple, and 1 for 1.0.
        return model.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise _first_problem(error, model, root, name) from error


def to_yaml(content: BaseModel | Mapping[str, Any]) -> str:
    """YAML for people: fields in their order, lists of words and numbers on one line, defaults left out."""
    plain = content.model_dump(mode="json", exclude_defaults=True) if isinstance(content, BaseModel) else dict(content)
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def write(path: str | os.PathLike[str], content: BaseModel | Mapping[str, Any]) -> None:
    """Write a document as YAML: all of it, or nothing."""
    write_text(path, to_yaml(content))


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a private file as a whole or not at all."""
    try:
        keep_private(Path(path), lambda draft: draft.write_text(text, encoding="utf-8", newline="\n"))
    except OSError as error:
        raise BadDocument(os.fspath(path), f"cannot be written: {error.strerror or error}") from error


class _Refused(yaml.MarkedYAMLError):
    """YAML outside the supported part."""


class _Loader(yaml.SafeLoader):
    """PyYAML's reader with the rules of YAML 1.2, without aliases, and no deeper than needed."""

    yaml_implicit_resolvers: typing.ClassVar[dict[str, Any]] = {}  # type: ignore[misc,unused-ignore]
    nesting = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise _Refused(problem="*aliases are not used here", problem_mark=mark)
        self.nesting += 1
        if self.nesting > _MOST_NESTED:
            raise _Refused(problem="is nested too deeply", problem_mark=mark)
        node = super().compose_node(parent, index)
        try:  # surrogates, which escapes can write, must stand in pairs
            str(node.value if isinstance(node, yaml.ScalarNode) else "").encode("utf-16", "surrogatepass").decode(
                "utf-16"
            )
        except UnicodeDecodeError:
            raise _Refused(problem="has half of a surrogate pair, not a character", problem_mark=mark) from None
        self.nesting -= 1
        return node

    def construct_yaml_int(self, node: Any) -> int:
        return int(self.construct_scalar(node))  # type: ignore[no-untyped-call,unused-ignore]


_RESOLVERS = (("bool", _BOOLEAN), ("int", _INTEGER), ("float", _FLOAT), ("null", _NULL))
for _tag, _pattern in _RESOLVERS:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, None)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that this or another reader would not read as text."""

    def represent_list(self, data: Any) -> Any:
        flat = all(not isinstance(value, list | tuple | dict) for value in data)
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flat)

    def represent_number(self, data: float) -> Any:
        whole = abs(data) < _LARGEST_PLAIN and data == int(data)
        return self.represent_int(int(data)) if whole else self.represent_float(data)


for _tag, _pattern in _RESOLVERS:
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, None)
_Dumper.add_representer(float, _Dumper.represent_number)
_Dumper.add_representer(list, _Dumper.represent_list)
_Dumper.add_representer(tuple, _Dumper.represent_list)


def _compose(text: str, name: str) -> Any:
    """The tree of nodes, each with its line."""
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or "cannot be read"
        if not isinstance(error, _Refused):
            problem = f"is not YAML: {problem}; look at the indentation, quotes and colons there"
        raise BadDocument(name, problem, line=None if mark is None else mark.line + 1) from error
    except yaml.YAMLError as error:  # a character that no text has
        raise BadDocument(name, "is not text: it has characters that YAML does not allow") from error


def _plain(node: Any, name: str, *, path: tuple[str, ...], loader: _Loader) -> Any:
    """The value of a node: dict, list, text, number, truth value or None."""
    field = ".".join(path)
    if node.tag not in _TAGS:
        raise BadDocument(name, f"{node.tag} is not used here", line=_line(node), field=field)
    if isinstance(node, yaml.ScalarNode):
        try:
            return loader.construct_object(node)  # type: ignore[no-untyped-call,unused-ignore]
        except (yaml.YAMLError, ValueError) as error:
            raise BadDocument(name, "cannot be read", line=_line(node), field=field) from error
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, name, path=(*path, str(index)), loader=loader) for index, item in enumerate(node.value)]
    fields: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise BadDocument(name, "a field's name must be a word", line=_line(key), field=field)
        inner = (*path, key.value)
        if key.value in fields:
            raise BadDocument(name, "is given twice; keep one", line=_line(key), field=".".join(inner))
        fields[key.value] = _plain(value, name, path=inner, loader=loader)
    return fields


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _first_problem(error: ValidationError, model: type[BaseModel], root: Any, name: str) -> BadDocument:
    """The first problem in the file, in words, and the number of others."""
    errors = error.errors(include_url=False)
    # A field under another name is missing too: its near miss says what to do, that it is missing does not.
    renamed = {problem["loc"][:-1] for problem in errors if problem["type"] == "extra_forbidden"}
    relevant = [problem for problem in errors if problem["type"] != "missing" or problem["loc"][:-1] not in renamed]
    problems = []
    for problem in relevant[:_MOST_PROBLEMS]:  # to find the line of each takes as long as the file is
        path = tuple(problem["loc"])
        if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):  # it lies in the field that holds the tag
            path = (*path, str(problem["ctx"]["discriminator"]).strip("'"))
        (line, fields), reason = _locate(root, path, problem), _reason(problem, model, path)
        named, _, rest = reason.partition(": ")
        if not path and (inner := _locate(root, (named,), problem))[1]:
            (line, fields), reason = inner, rest  # the reason begins with the name of a field
        problems.append((line, ".".join(fields), reason))
    line, field, reason = min(problems, key=lambda problem: problem[0])
    others = len({problem[:2] for problem in problems}) - 1
    if others:
        at_least = "at least " if len(relevant) > _MOST_PROBLEMS else ""
        reason += f" ({at_least}{others} more problem{'s' if others > 1 else ''} in this file)"
    return BadDocument(name, reason, line=line, field=field)


def _locate(root: Any, path: Sequence[Any], problem: Any) -> tuple[int, list[str]]:
    """The line of a problem, and its path in the file: without pydantic's names for union members."""
    node, line, fields = root, _line(root), []
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if entry is not None:
                node, line = entry[1], _line(entry[0])
                fields.append(str(part))
            elif last and problem["type"] in ("missing", "union_tag_not_found"):
                fields.append(str(part))
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = _line(node)
            fields.append(str(part + 1))  # people count from one
    return line, fields


_WORDS = {
    "missing": "is missing; add it",
    "union_tag_not_found": "is missing; add it",
    "string_type": "must be text; put it in quotes",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "list_type": "must be a list, such as [a, b]",
    "tuple_type": "must be a list, such as [a, b]",
    "dict_type": "must be a mapping of fields, such as {field: value}",
    "model_type": "must be a mapping of fields, such as {field: value}",
    "model_attributes_type": "must be a mapping of fields, such as {field: value}",
}


def _reason(problem: Any, model: type[BaseModel], path: Sequence[Any]) -> str:
    kind, context, given = problem["type"], problem.get("ctx", {}), problem["input"]
    if kind == "extra_forbidden":
        known = _fields_at(model, path[:-1])
        others = {_tag_of(node): node["properties"] for node in _nodes_at(model, path[:-2]) if _tag_of(node)}
        having = [tag for tag, fields in others.items() if path[-1] in fields]
        if path[-2:-1] and path[-2] in others and having:
            return f"is not a field of {path[-2]}, but of {', '.join(having)}; there are {', '.join(known)}"
        there_are = f"; there are {', '.join(known)}"
        return f"is not a field here{near_miss(str(path[-1]), known) or there_are}"
    if kind in ("literal_error", "union_tag_invalid"):
        choices = re.findall(r"'([^']*)'", str(context.get("expected", context.get("expected_tags", ""))))
        if path == ("version",):
            return f"this likeset reads version {context['expected']}, not {given}; take the likeset that wrote it"
        word = str(context.get("tag", given))
        near = near_miss(word, choices) if len(choices) > 1 else ""
        return f"must be {_either(choices or [str(context.get('expected'))])}{near}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing" and isinstance(path[-1], int):
        return "has too few values"
    if kind in _WORDS:
        return _WORDS[kind]
    return re.sub(r"^\w+ should", "must", str(problem["msg"])).replace(" after validation", "")


def _either(choices: Sequence[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"


def _fields_at(model: type[BaseModel], path: Sequence[Any]) -> list[str]:
    """The names of the fields at a place."""
    return list(dict.fromkeys(name for node in _nodes_at(model, path) for name in node.get("properties", {})))


def _tag_of(node: Any) -> str:
    """The name of a member of a union; empty for other nodes."""
    return str(next((one["const"] for one in node.get("properties", {}).values() if "const" in one), ""))


def _nodes_at(model: type[BaseModel], path: Sequence[Any]) -> list[Any]:
    """The allowed values at a place, from the model's JSON schema."""
    root = model.model_json_schema()

    def members(node: Any) -> list[Any]:
        if "$ref" in node:
            return members(root["$defs"][node["$ref"].rpartition("/")[2]])
        inner = [part for kind in ("anyOf", "oneOf", "allOf") for part in node.get(kind, ())]
        return [member for part in inner for member in members(part)] or [node]

    def step(node: Any, part: Any) -> list[Any]:
        inner = node.get("properties", {}).get(part, node.get("additionalProperties") or node.get("items"))
        return members(inner) if isinstance(inner, dict) else []

    reached = members(root)
    for part in path:
        tagged = [
            node for node in reached if any(one.get("const") == part for one in node.get("properties", {}).values())
        ]
        reached = tagged or [inner for node in reached for inner in step(node, part)] or reached
    return reached
