"""What is left to believe of others when letters travel, by mailbox or over NVFlare, in one place."""

__all__ = ["LEFT_TO_TRUST"]

LEFT_TO_TRUST = (
    "letters prove who speaks, and nobody on the way can read them; but whoever keeps the mailbox, or runs NVFlare's "
    "server, can delay and suppress them and sees their sizes and times. Over NVFlare only: whoever made the start-up "
    "kit can have put code into it, which runs as the machine's user who starts it: let that be another than the "
    "home's, and call `likeset site check`; other sites and administrators are kept out by guards that were tried with "
    "NVFlare 2.9.0 (docs/threat-model.md)"
)
"""Tests attacked it live, with certificates: ``tests/transports/test_network_attacks.py``."""
