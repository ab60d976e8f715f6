"""``likeset run plan``, ``invite`` and ``list``: what a job asks for, and the terms that were signed."""

from dataclasses import asdict

from likeset.app.cli.result_screen import show_guarantees
from likeset.app.cli.run_setup import HERE, Days, HomePath, JobPath, invited, opened_home
from likeset.display.screen import JsonFlag, literal, show_json, show_notes, show_table, stdout
from likeset.protocol.party import CURATOR
from likeset.run.job import Job
from likeset.run.kept_runs import listed_run
from likeset.run.notices import notice_documents
from likeset.run.runs import check_carried, check_owners_files, notes_on, notes_on_size, plan_between

__all__ = ["invite", "list_runs", "plan"]


def plan(job: JobPath, *, as_json: JsonFlag = False) -> None:
    """Say what a job would do and cost, as `likeset plan` does; writes nothing and asks nobody.

    Example: `likeset run plan job.yaml`
    """
    wanted = Job.load(job)
    check_owners_files(wanted)
    planned = plan_between(wanted)
    notes = [*check_carried(wanted), *notes_on_size(planned.traffic)]
    document = planned.document()
    if as_json:
        show_json({**document, "between_organisations": notice_documents(notes)})
        return
    terms = planned.terms
    facts = [
        ("rows that each owner discloses to the curator, at most", f"{terms.rows_per_owner:,}"),
        ("rows that the curator sees, at most", f"{planned.rows_seen:,}"),
        ("messages between curator and owners, at most", f"{planned.messages:,}"),
        ("numbers released about the target", f"{document['released_coordinates']:,}"),
    ]
    if terms.split is not None:
        facts[:3] = [
            ("rows that each owner offers, in shares", f"{terms.rows_per_owner:,}"),
            ("rows that three parties compute on, in shares", f"{planned.rows_seen:,}"),
            ("rows that anybody reads: you, in all", f"{terms.split.openings:,}"),
            ("of these rows of one owner, at most", f"{terms.rows_readable:,}"),
        ]
    show_table("What will travel", ("what", "how much"), facts, caption="Nobody was asked, and nothing was spent.")
    show_guarantees(document["guarantees"], owners=terms.owners, title="What it will cost")
    stdout.print(f"\n{literal(planned.advice.text)}\n", soft_wrap=True)
    show_notes(notice.text for notice in (*planned.warnings, *notes))


def invite(job: JobPath, *, days: Days = 30, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """Sign the terms of a job, for owners to look at before it is submitted; they name all parties by their cards.

    The cards of all owners and of the curator must be pinned here (`likeset card pin`). Where the release's
    width is chosen privately, that choice is made and charged now, once.

    Example: `likeset run invite job.yaml --home clinic`
    """
    consumer = opened_home(home)
    kept_run = invited(job, days, consumer)
    terms, notes = kept_run.terms, notes_on(consumer, kept_run)
    if as_json:
        told = {"run": kept_run.name, "invitation": str(kept_run.invitation_path), "digest": terms.digest}
        told["expires"] = terms.expires
        show_json({**told, "cards": dict(terms.cards), "notes": notice_documents(notes)})
        return
    path = kept_run.invitation_path
    stdout.print(f"[bold]{literal(str(path))}[/]  terms {terms.digest[:12]}, until {terms.expires}", soft_wrap=True)
    stdout.print(
        f"Give this file to owners; they look at it with: likeset owner inbox --add {literal(path.name)}",
        soft_wrap=True,
    )
    stdout.print("Invited are, by these cards:")
    for name, fingerprint in terms.cards.items():
        if name != terms.consumer:
            role = "curator" if name == CURATOR else "owner"
            stdout.print(f"  {fingerprint}  {role}  [bold]{literal(name)}[/]", soft_wrap=True)
    own = terms.cards[terms.consumer]
    stdout.print(f"They take part only if they have pinned yours: {own}", soft_wrap=True)
    show_notes(notice.text for notice in notes)


def list_runs(*, home: HomePath = HERE, as_json: JsonFlag = False) -> None:
    """All runs of this consumer.

    Example: `likeset run list --home clinic`
    """
    runs = [listed_run(kept_run) for kept_run in opened_home(home).runs()]
    if as_json:
        show_json({"runs": [asdict(run) for run in runs]})
        return
    lines = [[run.run, run.expires, run.way, "yes" if run.result else "no", run.digest[:12]] for run in runs]
    show_table("Runs", ["run", "terms until", "travels by", "result", "terms"], lines)
