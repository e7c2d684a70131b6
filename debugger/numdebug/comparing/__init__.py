"""Two runs of the same thing: where they part, and whether rounding explains it. Knows Run and its arrays; no framework in here."""
