"""What a run over NVFlare asks its parties to believe, in one place: until letters are signed and sealed, very much."""

__all__ = ["TRIALS_ONLY"]

TRIALS_ONLY = (
    "over NVFlare, runs are for trials among parties who trust each other and the operator: another site can read this "
    "site's files, an administrator of role super can run code here, and an owner can speak as the curator "
    "(docs/threat-model.md)"
)
"""Seen with NVFlare 2.9.0, in a network of processes with certificates and sites that ``likeset site`` had settled."""
