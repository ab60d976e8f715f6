# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # From pandas into scikit-learn
#
# Customers of an insurer, in data frames with numbers, words and gaps. A new branch wants a model of who leaves. It has
# 300 customers, and does not know yet who will leave. Three branches sell. Run it anywhere (pandas is needed):
#
#     .venv/bin/python examples/pandas_pipeline.py

# %%
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline

from likeset import Schema, Summarizer, evaluate

# %% [markdown]
# ## Customers
#
# Why customers leave differs by age: the young ones leave for the price, the old ones after a claim. So a model of the
# wrong customers is a wrong model.


# %%
def customers(branch, *, rows, age, online):
    coins = np.random.default_rng([8, *branch.encode()])
    table = pd.DataFrame(
        {
            "age": np.clip(coins.normal(age, 9, rows), 18, 99).round(),
            "premium": coins.lognormal(6.5, 0.4, rows).round(2),
            "claims": coins.poisson(0.6, rows),
            "channel": np.where(coins.random(rows) < online, "online", coins.choice(["agent", "bank"], rows)),
        }
    )
    young = table["age"] < 45
    reasons = np.where(young, (table["premium"] - 650) / 120, 2.5 * table["claims"] - 1.5)
    leaves = pd.Series(np.where(coins.random(rows) < 1 / (1 + np.exp(-reasons)), "leaves", "stays"), name="outcome")
    table.loc[coins.random(rows) < 0.1, "premium"] = np.nan
    return table, leaves


branches = {
    "city": customers("city", rows=900, age=34, online=0.8),
    "suburb": customers("suburb", rows=900, age=45, online=0.4),
    "coast": customers("coast", rows=900, age=60, online=0.1),
}
new, new_outcome = customers("new", rows=900, age=66, online=0.1)
target, later, later_outcome = new[:300], new[300:], new_outcome[300:]

# %% [markdown]
# ## One public declaration of the columns
#
# It is the first step of every pipeline below, and `fit` learns nothing in it.

# %%
columns = Schema.from_text("""
likeset: schema
version: 1
columns:
  age: {kind: numeric, bounds: [18, 100]}
  premium: {kind: numeric, bounds: [50, 10000], scale: log, missing: indicator}
  claims: {kind: numeric, bounds: [0, 5], outside: clip}
  channel: {kind: category, values: [online, agent, bank]}
label: {column: outcome, kind: category, values: [leaves, stays]}
""").transformer()

# %% [markdown]
# ## Match
#
# Owners' rows are mapped at home, and compared as numbers. `indices_` leads back to the rows of the frames.

# %%
matched = Summarizer(size=150, epsilon=2.0, offer_factor=5.0).fit(
    columns.transform(target),
    {name: columns.transform(table) for name, (table, _) in branches.items()},
    {name: outcome.to_numpy() for name, (_, outcome) in branches.items()},
)
bought = pd.concat([branches[owner][0].iloc[[row]] for owner, row in matched.indices_], ignore_index=True)
bought.insert(0, "branch", [owner for owner, _ in matched.indices_])
print(bought.groupby("branch")["age"].agg(["size", "mean"]).round(1))

# %% [markdown]
# ## A pipeline, and how well it does at the new branch
#
# Beside it: the same pipeline on as many customers at random. `evaluate` does it for three models, with intervals.

# %%
pool = pd.concat([table for table, _ in branches.values()], ignore_index=True)
pool_outcome = np.concatenate([outcome for _, outcome in branches.values()])
chosen = np.random.default_rng(8).choice(len(pool), 150, replace=False)
training_sets = {
    "150 matched": (bought, matched.labels_),
    "150 at random": (pool.iloc[chosen], pool_outcome[chosen]),
}
for name, (table, outcome) in training_sets.items():
    model = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(table, outcome)
    score = balanced_accuracy_score(later_outcome, model.predict(later))
    print(f"logistic regression on {name}: balanced accuracy {score:.2f} at the new branch")

judged = evaluate(
    columns.transform(bought),
    matched.labels_,
    test_rows=columns.transform(later),
    test_labels=later_outcome,
    compare={"150 at random": (columns.transform(pool.iloc[chosen]), pool_outcome[chosen])},
    resamples=200,
)
for line in judged.models:
    score = line.scores["balanced_accuracy"]
    print(f"{line.training_set}, {line.model}: {score.value:.2f} ({score.low:.2f} to {score.high:.2f})")
