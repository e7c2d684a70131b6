"""The training script that `numdebug demo` diagnoses."""

from pathlib import Path

SCRIPT = Path(__file__).with_name("train_classifier.py")
