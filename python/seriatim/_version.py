"""The version of the package; the C module must be of the same."""

__version__ = "0.1.0"
