"""What is left to believe of others when a run goes over NVFlare, in one place."""

__all__ = ["LEFT_TO_TRUST"]

LEFT_TO_TRUST = (
    "letters prove who speaks, and nobody on the way can read them; but whoever runs the server can delay and suppress "
    "them, and over NVFlare an administrator or another site can still read files of the machine's user under whom "
    "NVFlare runs: let that be another than the home's, and call `likeset site check` (docs/threat-model.md)"
)
"""Seen with NVFlare 2.9.0, in a network of processes with certificates and sites that ``likeset site`` had settled."""
