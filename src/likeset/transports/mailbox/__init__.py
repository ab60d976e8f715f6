"""Letters as files in a place that all parties reach: nobody needs a port, and its keeper needs no trust."""
