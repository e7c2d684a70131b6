"""User's file -> what runs: read and check it, run it as Python would, and call what it defines but does not call."""
