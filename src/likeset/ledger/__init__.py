"""Budgets of views over all runs: reserve, run, commit; resend, never redraw."""

from likeset.ledger.accounts import Account
from likeset.ledger.chain import Entry, Head, Problem
from likeset.ledger.charges import Limit, check_relation
from likeset.ledger.journal import StoredMessage, journal_path
from likeset.ledger.ledger import Ledger
from likeset.ledger.log import ChainedLog, Verification
from likeset.ledger.requests import Request, Reservation, Unfinished
from likeset.ledger.transaction import Transaction

__all__ = [
    "Account",
    "ChainedLog",
    "Entry",
    "Head",
    "Ledger",
    "Limit",
    "Problem",
    "Request",
    "Reservation",
    "StoredMessage",
    "Transaction",
    "Unfinished",
    "Verification",
    "check_relation",
    "journal_path",
]
