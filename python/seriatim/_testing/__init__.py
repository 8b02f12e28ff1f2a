"""The parts of seriatim.testing."""
