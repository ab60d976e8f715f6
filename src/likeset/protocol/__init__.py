"""The two protocols as pure state machines: message in, messages out; no socket, clock, file or secret randomness."""
