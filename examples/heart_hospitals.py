# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # Hospitals with heart data
#
# A hospital without labels gets patients like its own from three others. Run it from the repository's folder:
#
#     .venv/bin/python examples/heart_hospitals.py
#
# Patients are generated, with the columns of the UCI archive's Heart Disease data. To take the real ones, unpack its
# `processed.*.data` into a folder and name that in `LIKESET_HEART`.

# %%
import os
from pathlib import Path

import numpy as np
import pyarrow as pa

from likeset import Schema, Summarizer, evaluate

MEASURED = (
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
)
OWNERS = ("cleveland", "hungarian", "switzerland")

# %% [markdown]
# ## Patients
#
# The generated hospitals differ in age and in how many patients are ill, and some measure less than others.


# %%
def published(folder, hospital):
    lines = (folder / f"processed.{hospital}.data").read_text().split()
    *measured, degree = zip(*(line.split(",") for line in lines), strict=True)
    columns = [[None if value == "?" else value.removesuffix(".0") for value in column] for column in measured]
    return pa.table(
        dict(zip(MEASURED, columns, strict=True)) | {"disease": [str(int(float(value) > 0)) for value in degree]}
    )


def generated(hospital, *, rows, age, unmeasured):
    coins = np.random.default_rng([8, *hospital.encode()])
    years = np.clip(coins.normal(age, 9, rows), 20, 95)
    ill = coins.random(rows) < 1 / (1 + np.exp(-(years - 55) / 6))
    numbers = {
        "age": years,
        "sex": coins.random(rows) < 0.7,
        "cp": np.where(ill, coins.choice([3, 4], rows), coins.choice([1, 2, 3], rows)),
        "trestbps": np.clip(coins.normal(115 + 0.3 * years, 15), 70, 250),
        "chol": np.clip(coins.lognormal(5.45, 0.2, rows), 80, 700),
        "fbs": coins.random(rows) < 0.15,
        "restecg": coins.choice([0, 1, 2], rows),
        "thalach": np.clip(coins.normal(205 - years - 12 * ill, 15), 60, 220),
        "exang": coins.random(rows) < np.where(ill, 0.6, 0.15),
        "oldpeak": np.clip(coins.normal(0.5 + 1.2 * ill, 0.7), -2, 6),
        "slope": np.where(ill, coins.choice([2, 3], rows), coins.choice([1, 2], rows)),
        "ca": coins.choice([0, 1, 2, 3], rows),
        "thal": np.where(ill, coins.choice([6, 7], rows), coins.choice([3, 7], rows)),
    }
    columns = {name: np.asarray(values, dtype=float).round(1).tolist() for name, values in numbers.items()}
    for name in ("slope", "ca", "thal"):
        missing = coins.random(rows) < unmeasured
        columns[name] = [None if absent else value for absent, value in zip(missing, columns[name], strict=True)]
    columns = {name: [None if v is None else f"{v:g}" for v in values] for name, values in columns.items()}
    return pa.table(columns | {"disease": [str(int(value)) for value in ill]})


if folder := os.environ.get("LIKESET_HEART"):
    patients = {name: published(Path(folder), name) for name in (*OWNERS, "va")}
else:
    patients = {
        "cleveland": generated("cleveland", rows=300, age=50, unmeasured=0.0),
        "hungarian": generated("hungarian", rows=290, age=47, unmeasured=0.8),
        "switzerland": generated("switzerland", rows=120, age=57, unmeasured=0.3),
        "va": generated("va", rows=200, age=62, unmeasured=0.8),
    }

# %% [markdown]
# ## Columns become numbers by a public file
#
# The same for all hospitals, written from a code book and not from patients. `va` is the hospital without labels: one
# half of its patients is the target, the other half is kept to judge by.

# %%
schema = Schema.load("docs/examples/heart-schema.yaml")
features = schema.transformer()
rows = {name: features.transform(table) for name, table in patients.items()}
ill = {name: table["disease"].to_numpy(zero_copy_only=False).astype(int) for name, table in patients.items()}
target, held_out, held_out_ill = rows["va"][::2], rows["va"][1::2], ill["va"][1::2]

# %% [markdown]
# ## Match
#
# Owners may learn epsilon = 4 about any patient of the target, and nothing about each other's in this run. The curator
# sees three rows for each one that is bought.

# %%
matched = Summarizer(size=60, epsilon=4.0, offer_factor=3.0).fit(
    target, {name: rows[name] for name in OWNERS}, {name: ill[name] for name in OWNERS}
)
distance = matched.distance_
print(f"{len(matched.labels_)} patients, MMD² to new ones of the target's kind {distance.squared_mmd:.3f}")
for name in OWNERS:
    print(f"  {name}: {sum(owner == name for owner, _ in matched.indices_)} of them")
for planned in matched.guarantees_[:2]:
    print(" ", planned.view, "->", planned.guarantee)

# %% [markdown]
# ## What models learn from them
#
# Beside them: as many patients at random, and all of them, which nobody would have been given.

# %%
pool, pool_ill = np.concatenate([rows[name] for name in OWNERS]), np.concatenate([ill[name] for name in OWNERS])
chosen = np.random.default_rng(8).choice(len(pool), 60, replace=False)
judged = evaluate(
    matched.summary_,
    matched.labels_,
    test_rows=held_out,
    test_labels=held_out_ill,
    compare={"60 at random": (pool[chosen], pool_ill[chosen]), "everybody": (pool, pool_ill)},
    resamples=200,
)
for line in judged.models:
    score = line.scores["balanced_accuracy"]
    print(f"{line.training_set}, {line.model}: {score.value:.2f} ({score.low:.2f} to {score.high:.2f})")
