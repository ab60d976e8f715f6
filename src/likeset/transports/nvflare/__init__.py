"""Runs between organisations over NVIDIA FLARE; needs the extra ``likeset[nvflare]``."""
