"""Budgets of views over all runs: reserve, run, commit; resend, never redraw."""

from likeset.ledger.budget import Account, Charge, Limit, check_account
from likeset.ledger.ledger import (
    ChainedLog,
    Entry,
    Head,
    Ledger,
    Problem,
    Repeatable,
    Request,
    Reservation,
    StoredMessage,
    Transaction,
    Unfinished,
    Verification,
    journal_path,
)

__all__ = [
    "Account",
    "ChainedLog",
    "Charge",
    "Entry",
    "Head",
    "Ledger",
    "Limit",
    "Problem",
    "Repeatable",
    "Request",
    "Reservation",
    "StoredMessage",
    "Transaction",
    "Unfinished",
    "Verification",
    "check_account",
    "journal_path",
]
