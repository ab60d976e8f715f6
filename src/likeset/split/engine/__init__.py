"""What runs in a worker process: in an environment of its own that has numpy, jax and spu, and nothing of likeset.

These modules import each other, numpy, jax, spu and the standard library. All of their bytes are part of the digest
by which terms name the program.
"""
