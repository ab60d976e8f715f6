"""Pages in a browser, for a steward and for a consumer: thin, and no rule of its own; see docs/console.md."""
