"""numdebug finds out why a model's numbers go wrong, proves it, and says what to change."""

from pathlib import Path

__version__ = "0.1.0"

# In a checkout, probes/ and prompts/ lie at the top of the repository; in an
# installed wheel they lie beside this file, and this adds nothing.
_checkout = Path(__file__).resolve().parents[2]
if (_checkout / "probes").is_dir() and (_checkout / "pyproject.toml").is_file():
    __path__.append(str(_checkout))
