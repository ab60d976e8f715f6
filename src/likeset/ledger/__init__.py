"""Budgets of views over all runs: reserve, run, commit; resend, never redraw."""

from likeset.ledger.accounts import Account
from likeset.ledger.chain import Entry, Head, Problem
from likeset.ledger.charges import Charge, Limit, check_account
from likeset.ledger.journal import StoredMessage, journal_path
from likeset.ledger.ledger import Ledger
from likeset.ledger.log import ChainedLog, Verification
from likeset.ledger.requests import Repeatable, Request, Reservation, Unfinished
from likeset.ledger.transaction import Transaction

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
