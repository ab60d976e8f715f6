"""``python -m studies``, from the repository's own folder."""

from studies.command import main

if __name__ == "__main__":
    main()
