"""What commands share that look into mailboxes."""

from typing import Annotated

import typer

__all__ = ["MailboxOption"]

MailboxOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mailbox",
        metavar="ADDRESS",
        help="Where letters come and go: file:///FOLDER, sftp://USER@HOST/FOLDER or s3://BUCKET/FOLDER; repeatable.",
        show_default=False,
    ),
]
