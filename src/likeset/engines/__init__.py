"""How messages travel between parties; what they mean is the protocol's business."""
