"""The curator's own side: its ledgers, the schemas that it knows, its transcripts and its signing key."""
