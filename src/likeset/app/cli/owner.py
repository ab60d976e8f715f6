"""``likeset owner``: an owner's own side: who may ask, what left, what is left of the budgets."""

from typing import Any

import typer

from likeset.app.cli import (
    consoles,
    owner_data,
    owner_mail,
    owner_policy,
    owner_records,
    owner_rows,
    owner_runs,
    owner_setup,
)

__all__ = ["owner"]

_SETTINGS: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "markdown"}
owner = typer.Typer(name="owner", **_SETTINGS)
_data = typer.Typer(name="data", help="The data sets of this node.", **_SETTINGS)
_policy = typer.Typer(name="policy", help="What owner.yaml allows.", **_SETTINGS)
_audit = typer.Typer(name="audit", help="The audit log.", **_SETTINGS)
for _part in (_data, _policy, _audit):
    owner.add_typer(_part)

owner.command()(owner_setup.init)
_data.command()(owner_setup.add)
_data.command(name="list")(owner_data.list_data)
_data.command(name="check")(owner_data.check_data)
_data.command()(owner_data.remove)
owner.command()(owner_setup.check)
_policy.command()(owner_policy.show)
_policy.command()(owner_policy.put)
_policy.command(name="test")(owner_runs.policy_test)
owner.command()(owner_runs.inbox)
owner.command()(owner_runs.review)
owner.command(name="dry-run")(owner_runs.dry_run)
owner.command()(owner_runs.approve)
owner.command()(owner_runs.deny)
owner.command()(owner_runs.withdraw)
owner.command()(owner_mail.sync)
owner.command()(owner_mail.serve)
owner.command(name="console")(consoles.of_owner)
owner.command()(owner_records.outbox)
owner.command()(owner_rows.row)
owner.command()(owner_records.budget)
_audit.command(name="list")(owner_records.list_entries)
_audit.command()(owner_records.verify)
