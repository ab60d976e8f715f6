"""Every kind of entry that a chained log may hold; one of another kind is a problem, for nobody knows what it means."""

__all__ = ["AUDIT", "BUDGETS"]

BUDGETS = frozenset({"open", "limit", "reserve", "commit", "purge"})
"""What accounts, requests and their answers follow from."""

AUDIT = frozenset(
    {
        "policy",
        "data",
        "invited",
        "reviewed",
        "rehearsed",
        "approved",
        "denied",
        "withdrawn",
        "began",
        "sent",
        "refused",
        "refused-more",
        "acknowledged",
        "trusted",  # of logs from before cards: a curator's key was pinned by itself
        "card",
    }
)
"""What an owner was asked, decided, refused and sent; budgets do not depend on it."""
